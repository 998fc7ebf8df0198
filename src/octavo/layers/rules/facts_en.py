"""What an English clause says of its subject: one of the six kinds of profile facts, by patterns over the lexicon.

The verb stands in its base form here: "I'm", "he is" and "we are" have all become "be".
"""

import re
from collections.abc import Callable

from octavo.layers.rules import lexicon_en as en
from octavo.layers.rules.facts import NO, YES, Said, plain, polar

# Not those that deny: "I never worked there" must not be read as "I worked there".
_ADV = rf"(?:(?!(?:never|no longer|rarely|seldom|hardly ever) ){en.ADVERBS} )*"
_NOT = r"(?P<no>(?:do |can |will |be |have )?not |no longer |never )?"
_LIST = re.compile(r",\s*(?:and|or)?\s*| (?:and|or|as well as) (?:also )?")
_TOGETHER = re.compile(r"^(?:rock and roll|fish and chips|mac and cheese|black and white|r and d|peanut butter and jelly|trial and error|food and drink|salt and pepper|dungeons and dragons|science and technology)", re.IGNORECASE)  # fmt: skip
_OBJECT_VERB = re.compile(r"^(?:to )?(?:drink(?:ing)?|eat(?:ing)?|watch(?:ing)?|listen(?:ing)? to|play(?:ing)?(?: the)?|us(?:e|ing)|speak(?:ing)?|go(?:ing)?(?: to)?|writ(?:e|ing)(?: in)?|do(?:ing)?|read(?:ing)?(?= \w)) ", re.IGNORECASE)  # fmt: skip
_TAIL = re.compile(r"\s+(?:a lot|very much|so much|the most|too|as well|pretty well|very well|really well|quite well|well|fluently|a bit|a little|these days|right now|at the moment|now|anymore|any more|at all|in general|though|please|for (?:the (?:last|past) )?\w+ years?|since \d{4})$", re.IGNORECASE)  # fmt: skip


_NOT_THAT = re.compile(r",\s*not\s.+$", re.IGNORECASE)  # in Berlin, not Munich


def _bare(value: str) -> str:
    before = ""
    while before != value:
        before, value = value, _TAIL.sub("", value)
    return _NOT_THAT.sub("", value)


def split_list(value: str) -> list[str]:
    """The items of a list of things; a long item is a sentence and stays whole."""
    if (
        _TOGETHER.match(value)
        or " than " in value
        or " over " in value
        or " to " in value
        or " between " in value
    ):
        return [value]
    items = [item.strip() for item in _LIST.split(value) if item and item.strip()]
    return items if items and all(len(item.split()) <= 4 for item in items) else [value]


def _liked(item: str) -> str:
    return plain(_OBJECT_VERB.sub("", item))


def _denied(match: "re.Match[str]") -> bool:
    return bool(match.groupdict().get("no"))


def _listed(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    def make(match: "re.Match[str]") -> Said:
        items = split_list(_bare(match["v"]))
        yes = _denied(match) == bool(match.groupdict().get("hates"))
        return Said(category, polar(name, map(_liked, items), yes), tuple(items))

    return make


def _one(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(category, [{name: plain(_bare(match["v"]))}])


def _affirmed(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(
        category, [{f"{name}:{plain(_bare(match['v']))}": NO if _denied(match) else YES}]
    )


#: "I'm seeing the dentist", "I'm married to a doctor": somebody else's job.
_NO_JOB = re.compile(r"\b\w+(?:ing|ed) (?:to |by |with )?(?:the|an?|my|our|his|her|another|some)\b|\b(?:to|like|than|not) |^(?:my|his|her|their)\b.*\b(?:partner|model|head|guard|lead)$", re.IGNORECASE)  # fmt: skip


def _job(match: "re.Match[str]") -> Said | None:
    groups = match.groupdict()
    role, slots = _bare(groups.get("v") or ""), {}
    if role:
        role, _, rest = _parted(role)
        if "strict" in groups and (not en.OCCUPATION.search(role) or _NO_JOB.search(role)):
            return None
        slots["occupation"] = plain(role)
        if rest.startswith(("at ", "for ")):
            slots["employer"] = plain(rest.split(" ", 1)[1])
    if groups.get("e"):
        slots["employer"] = plain(_bare(groups["e"]))
    if groups.get("p"):
        slots["workplace"] = plain(_bare(groups["p"]))
    return (
        Said("career", [slots])
        if not _denied(match)
        else Said("career", [{f"not {key}": value for key, value in slots.items()}])
    )


def _parted(role: str) -> tuple[str, str, str]:
    """A role, and where it is held: "a nurse at Mercy" apart."""
    match = re.search(
        r" (?=(?:at|for|in|from|with|who|of|on|based|working|by|specializ\w+|specialis\w+|focus\w+|turned|until|since|here|near)\b)|, ",
        role,
    )
    return (role[: match.start()], " ", role[match.end() :]) if match else (role, "", "")


def _trait(match: "re.Match[str]") -> Said:
    word, yes = match["v"].lower(), not _denied(match)
    if word in en.ANTONYMS:
        word, yes = en.ANTONYMS[word], not yes
    return Said("personality", [{f"trait:{plain(en.SAME_TRAITS.get(word, word))}": YES if yes else NO}])


def _home(match: "re.Match[str]") -> Said:
    where = plain(re.split(r" (?:with|for|since|and|but|near|now)\b", _bare(match["v"]))[0])
    return Said("preference", [{"not residence" if _denied(match) else "residence": where}])


def _from(match: "re.Match[str]") -> Said:
    """Where somebody comes from; "born in 1990" is when."""
    where = match["v"] or match["w"]
    born = re.match(rf"(?:the )?(?:\d|(?:{en.MONTHS})\b)", where, re.IGNORECASE)
    return Said("preference", [{"birthday" if born else "home town": plain(where)}])


def _of(match: "re.Match[str]") -> Said:
    return Said("preference", [{f"favourite:{plain(match['k'])}": plain(match["v"])}])


def _whole(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(category, [{f"{name}:{plain(match[0])}": YES}])


_STUDENT = r"(?:students?|freshman|sophomore|undergraduate|undergrad|postgrad|grad student|graduate student|phd candidate|doctoral candidate|postdoc|alum|alumnus|alumna|graduate|major|pupil|dropout|valedictorian)"
_DEGREE = r"(?:bachelor(?:'?s)?|master(?:'?s)?|ph\.?d|doctorate|degree|mba|diploma|b\.?sc|m\.?sc|b\.?a|m\.?a|ged|associate'?s|minor|major|double major|law degree|jd|undergrad|undergraduate degree|postgrad|high school diploma)"
_RULES: tuple[tuple[str, "Callable[[re.Match[str]], Said | None]"], ...] = (
    # education
    (rf"be {_NOT}{_ADV}(?:an? |the |in my |one of )?(?P<v>(?:[\w'.-]+ ){{0,5}}?{_STUDENT}\b.*)", _one("student", "education")),
    (rf"be {_ADV}(?:studying|majoring in|pursuing|doing my|getting my|working on my|finishing my|working towards?|enrolled in|enrolled at|attending|taking) (?P<v>.*(?:{_DEGREE}|universit|college|school|law|medicine|science|engineering|physics|history|economics|biology|math|art|literature|philosophy|psychology|course|program|business|music|architecture|nursing|at ).*)", _one("study", "education")),
    (rf"be (?:halfway|almost|nearly|still)? ?(?:through|done with|in the middle of|finishing) (?P<v>(?:my|an?|the) {_DEGREE}\b.*)", _one("study", "education")),
    (r"be (?:in|at|a \w+ in) (?P<v>(?:my )?(?:\w+ )?(?:college|university|high school|grad(?:uate)? school|law school|med(?:ical)? school|middle school|(?:first|second|third|fourth|final|last) year|uni|(?:the )?\d+(?:th|st|nd|rd) grade)\b.*)", _one("study", "education")),
    (r"(?:have |be )?(?:graduated?|dropped out)(?: (?:of|from|at|with|in))? (?P<v>.+)", _affirmed("school", "education")),
    (rf"(?:have |hold |earned |got |received |completed |finished |do |did |be getting |be finishing |be doing |never |not )+(?:an? |my |his |her |their |two |the )?(?P<v>(?:[\w'-]+ ){{0,3}}?{_DEGREE}\b.*)", _affirmed("degree", "education")),
    (r"(?P<no>never |did not )?(?:finish|finished|completed|left|skipped|quit|dropped out of) (?P<v>(?:high school|college|university|school|grad school|uni|law school|med school)\b.*)", _affirmed("school", "education")),
    (r"(?:have )?(?:studied|study|majored in|major in|minored in|read) (?P<v>.+? at .+|(?:law|medicine|history|physics|economics|biology|maths?|mathematics|computer|engineering|literature|philosophy|psychology|chemistry|art|music|business|architecture|nursing|journalism|linguistics|political|sociology|design|english|marine|graphic|mechanical|electrical|civil|finance|accounting|theology|film|dance|education)\b.*)", _affirmed("studied", "education")),
    (r"(?:went to|go to|attended|attend|got into|was educated at|got accepted (?:in)?to|am attending) (?P<v>(?!an? )(?:.*\b(?:college|university|school|academy|institute|mit|harvard|stanford|yale|oxford|cambridge|berkeley|princeton|ucla|eth|polytechnic|bootcamp)\b.*))", _affirmed("school", "education")),
    (r"(?:major|minor|degree|alma mater|field of study|thesis|dissertation|phd|doctorate|master's|undergrad|bachelor's|background)(?: (?:topic|degree|subject))? (?:be|was|were|is) (?:in |on |from |about )?(?P<v>.+)", _one("major", "education")),
    # abilities
    (rf"be {_NOT}{_ADV}(?:good|great|skilled|proficient|fluent|excellent|experienced|an? expert|comfortable|decent|adept|trained|certified|talented|amazing|competent|versed|well-versed|handy|conversant|brilliant|a pro) (?:at|in|with|on) (?P<v>.+)", _listed("can", "ability")),
    (rf"be {_ADV}(?P<no>terrible|bad|awful|hopeless|useless|rubbish|weak) (?:at|with) (?P<v>.+)", _listed("can", "ability")),
    (r"have been (?P<v>(?:coding|programming|playing|dancing|painting|singing|skiing|climbing|cooking|baking|writing|speaking|developing) .+? for .+ years?)", _affirmed("can", "ability")),
    (r"(?:have )?(?P<no>never |not )?(?:learned|learnt|picked up) (?:how to |to )?(?P<v>.+)", _listed("can", "ability")),
    (rf"{_NOT}{_ADV}know how to (?P<v>.+)", _listed("can", "ability")),
    (rf"{_NOT}{_ADV}know (?:some |a (?:bit|little) (?:of )?)?(?P<v>(?:{en.LANGUAGES}|{en.TECH})\b.*)", _listed("can", "ability")),
    (rf"{_NOT}{_ADV}speak (?:a (?:bit|little) (?:of )?|some )?(?P<v>(?:{en.LANGUAGES}|\w+ languages?)\b.*)", _listed("can", "ability")),
    (rf"(?:can|be able to) (?P<no>not )?{_ADV}(?P<v>(?:{en.SKILL_VERBS})\b.*)", _listed("can", "ability")),
    (r"(?:have|got) (?P<no>no )?(?:a lot of |lots of |plenty of |some |extensive |solid |strong |years of |deep |little |much )*(?:hands-on )?experience (?:with|in|using) (?P<v>.+)", _listed("can", "ability")),
    (r"(?:have|hold|got) (?:an? |my )?(?P<v>(?:[\w'-]+ ){0,3}(?:licen[sc]e|certificate|certification|black belt))\b.*", _affirmed("licence", "ability")),
    (rf"{_ADV}(?:speciali[sz]e in|excel at|have a (?:talent|knack|gift) for|mastered|have mastered) (?P<v>.+)", _listed("can", "ability")),
    (rf"(?P<v>{en.LANGUAGES}|[\w+#]+ skills) be {_ADV}(?P<no>not |bad|terrible|poor|rusty)?.*(?:good|fluent|native|great|excellent|decent|strong|bad|rusty|poor|solid|advanced|intermediate|basic|terrible|ok).*", _affirmed("can", "ability")),
    (r"(?:native language|mother tongue|first language) be (?P<v>.+)", _one("mother tongue", "ability")),
    (r"(?:greatest |biggest |main )?(?:strength|strengths|strong suit|superpower|forte|skills|skill set) (?:be|include) (?P<v>.+)", _listed("can", "ability")),
    # career
    (r"(?:have been |be |was |were )?(?:current |new |day |full-time |main )*(?:job title|job|profession|occupation|title|role|position|career|work) (?:be|is|was) (?P<v>.+)", _one("occupation", "career")),
    (r"(?:employer|company|workplace) be (?:called )?(?P<v>(?-i:[A-Z]).+)", _one("employer", "career")),
    (r"(?:salary|income) be (?P<v>.+)", _one("salary", "career")),
    (rf"(?P<no>do not |no longer |have not |have never )?(?:{_ADV})?(?:have been |be |have )?work(?:ing|ed)? (?:(?:full|part)[ -]time |remotely |freelance )?(?:at|for) (?P<e>(?!home|night|the moment).+?)(?: as (?:an? |the )?(?P<v>.+))?$", _job),
    (rf"{_ADV}(?:have been |be )?(?:work|working|worked|freelance|freelancing|serve|employed|hired|started|start|got a job)(?: \w+ly)? as (?:an? |the |our )?(?P<v>.+)", _job),
    (rf"{_ADV}(?:have been |be |have )?(?:work|working|worked) (?:mainly |mostly |full-time |part-time |remotely )?(?:in|from|out of) (?P<p>(?!home\b).+)", _job),
    (rf"{_ADV}(?:have been |be |have )?(?:work|working) (?:mainly |mostly |full-time |remotely )?from (?P<v>home)\b.*", _affirmed("works from", "career")),
    (rf"{_ADV}(?:work|have worked|have been working) (?:mainly |mostly )?(?:on|with) (?P<v>.+)", _affirmed("works with", "career")),
    (rf"(?:(?:have been|be|was|became|used to be) )(?P<no>not )?(?P<strict>){_ADV}(?:an? |the |our )?(?P<v>.+)", _job),
    (rf"be {_ADV}(?P<v>self-employed|unemployed|retired|between jobs|freelancing|freelance|jobless|out of work|employed|on (?:parental|maternity|paternity|sabbatical|sick) ?(?:leave)?|looking for (?:a )?(?:new )?(?:job|work)|job hunting|in (?:sales|marketing|finance|tech|hr|consulting|real estate|it|logistics|advertising|the (?:army|navy|military)))\b.*", _one("occupation", "career")),
    (rf"{_ADV}(?:run|own|co-own|founded|co-founded|cofounded|operate|started) (?:an? |my own |our own |my |our |the |two )?(?P<v>(?:[\w'-]+ ){{0,4}}?(?:business|company|startup|shop|store|bakery|restaurant|cafe|café|agency|studio|farm|firm|consultancy|clinic|gym|bar|hotel|nonprofit|practice|salon|blog|bookstore|brewery|school|podcast|channel)\b.*)", _affirmed("business", "career")),
    (rf"{_ADV}(?:be )?(?:lead|leading|manage|managing|head|heading|oversee|supervise|run) (?:up )?(?:an? |the |our )?(?P<v>.*(?:team|department|group|division|engineers|people|developers|projects?|operations|staff|unit|org|accounts).*)", _one("leads", "career")),
    (r"be (?:in charge of|responsible for) (?P<v>.+)", _one("work", "career")),
    (rf"{_ADV}(?:teach|coach|sell|do|make|develop|write|build|design|practice|practise) (?P<v>.+ (?:for a living|professionally|at (?:a|an|the) .+|for a .+ (?:company|startup|agency|firm)))", _one("work", "career")),
    (rf"{_ADV}do (?P<v>(?:freelance|contract|part-time|full-time|consulting|odd) .+|(?:[\w-]+ ){{0,3}}(?:design|consulting|accounting|marketing|sales|research|development|engineering|photography|carpentry|bookkeeping|tutoring|recruiting|support|analytics))$", _one("work", "career")),
    (rf"{_ADV}(?:(?:sell|repair|fix|deliver|groom|breed|install) |drive (?=(?:an? |the |for )?(?:taxi|truck|bus|cab|uber|lorry|train|ambulance|van))|cut (?=hair))(?P<v>.+)", _one("work", "career")),
    (rf"{_ADV}teach (?P<v>.+)", _one("work", "career")),
    (r"have (?:over |more than |about |nearly |almost )?(?P<v>\w+(?: plus)?\+? years?(?:'| of)? (?:\w+ )*experience.*)", _one("experience", "career")),
    # personality
    (rf"(?:be|was|consider myself|see myself as|would describe myself as|describe myself as|would say i be) {_NOT}(?:{_ADV})(?:an? |the |such an? )?(?:{_ADV})(?P<v>{en.TRAITS})(?: (?:person|guy|girl|man|woman|kid|soul|type|one|and .*|but .*|by nature|at work|in .*|with .*|around .*|about .*|when .*|at .*|under .*|even .*|if .*|to .*|for .*|on .*|most of the time|sometimes))?$", _trait),
    (rf"{_ADV}(?P<no>do not )?tend to (?P<v>.+)", _affirmed("trait", "personality")),
    (rf"(?:{_ADV}(?:get|become|be) )(?P<v>.*\b(?:easily|quickly)\b.*|easily .*)", _affirmed("trait", "personality")),
    (rf"have (?:an? )?{_ADV}(?P<v>(?:short|quick|bad|hot|no|little|great|good|dry|dark|weird|sense of|strong|big) ?(?:temper|patience|sense of humou?r|humou?r|work ethic|personality|ego|imagination|attention span).*)", _affirmed("trait", "personality")),
    (rf"{_ADV}(?P<v>overthink|procrastinate|worry too much|worry a lot|daydream|hold grudges|second-guess).*", _affirmed("trait", "personality")),
    (r"(?:personality|temperament|mbti)(?: type)? (?:be|tends to be) (?P<v>.+)", _affirmed("trait", "personality")),
    (rf"(?:be|have) {_ADV}(?:an? )?(?P<v>(?:IN|EN|IS|ES)[TF][JP])\b.*", _affirmed("trait", "personality")),
    # values
    (rf"{_NOT}{_ADV}(?:value|believe in|care (?:{en.ADVERBS} )*about|cherish|respect|stand for|treasure|prioriti[sz]e|strive for|support|put|live by|be committed to|be a (?:strong |firm |big )?believer in|have faith in|be dedicated to|oppose|advocate for) (?P<v>.+)", _listed("value", "value")),
    (rf"{_ADV}(?:believe|hold) (?:that )?(?P<v>.*\b(?:should|must|important|matters?|deserves?|first|right|wrong|worth|key|essential|everything|comes?|always|never|ought)\b.*)", _affirmed("value", "value")),
    (rf"{_ADV}(?:think|feel) (?:that )?(?P<v>(?!i\b|we\b|the\b|my\b|he\b|she\b|they\b).*\b(?:should|must|important|matters?|deserves?|right|wrong|worth|essential|everything|comes? first|ought)\b.*)", _affirmed("value", "value")),
    (r"(?P<no>would never|will never) (?P<v>.+)", _affirmed("value", "value")),
    (rf"{_ADV}(?P<v>treat (?:everyone|everybody|people|others|animals) .+)", _affirmed("value", "value")),
    (r"(?:life )?(?:motto|philosophy|goal in life|principle|principles|core values?|values?|dream|religion|faith|mission|top priority|priority|guiding principle) (?:be|include) (?P<v>.+)", _one("creed", "value")),
    # preferences
    (r"(?:all-time |absolute )?(?:favou?rite|preferred|go-to|usual|least favou?rite) (?P<k>[\w' -]{1,40}?) be (?P<v>.+)", _of),
    (r"(?:hobby|hobbies|interests?|passion|passions|pastime) (?:be|include) (?P<v>.+)", _listed("like", "preference")),
    (rf"{_NOT}{_ADV}(?:like|love|enjoy|prefer|adore|dig|fancy|favou?r|appreciate|drink|eat|smoke|watch|use|wear|miss|care for|collect|listen to|follow|play) (?P<v>.+)", _listed("like", "preference")),
    (rf"{_ADV}(?P<hates>hate|dislike|despise|detest|loathe|fear|dread|avoid|(?:can|could) not (?:stand|tolerate|eat|drink|bear|have|do without)|gave up|stopped (?:eating|drinking)|quit) (?P<v>.+)", _listed("like", "preference")),
    (r"(?:can not live without|can not get enough of) (?P<v>.+)", _listed("like", "preference")),
    (r"(?:would|will) (?:much )?(?:rather|prefer|always choose) (?P<no>not )?(?P<v>.+)", _listed("like", "preference")),
    (rf"be {_NOT}{_ADV}(?:an? )?(?:{_ADV})?(?:(?:big|huge|massive|die-hard|lifelong|real|total) )*(?:into|fond of|keen on|crazy about|obsessed with|passionate about|interested in|fans? of|addicted to|in love with|drawn to|partial to|a sucker for|hooked on|nuts about|used to) (?P<v>.+)", _listed("like", "preference")),
    (rf"be {_NOT}{_ADV}(?:an? )?(?:{_ADV})?(?:(?:big|huge|massive|avid|die-hard) )*(?P<v>[\w -]{{2,30}}) (?:lover|fan|enthusiast|buff|nerd|geek|fanatic|addict|junkie|aficionado)$", _listed("like", "preference")),
    (rf"be {_NOT}{_ADV}(?:more of )?an? (?P<v>(?:dog|cat|coffee|tea|beach|mountain|city|outdoor|outdoors|book|indoor|summer|winter|country|wine|beer) person)$", _affirmed("is", "preference")),
    (rf"(?:be {_NOT}{_ADV}|have an? )(?:severely |highly |deathly )?(?:allergic to|allergy to) (?P<v>.+)", _listed("allergy", "preference")),
    (rf"be {_NOT}{_ADV}(?:an? )?(?P<v>(?:single |proud |new )?(?:mother|father|mom|mum|dad|parent|grandmother|grandfather)(?= of |$)|only child|twin|vegan|vegetarian|pescatarian|lactose intolerant|gluten[- ]free|gluten intolerant|celiac|diabetic|left-handed|colou?r-?blind|asthmatic|pregnant|deaf|blind|night owl|smoker|non-smoker|teetotal(?:er)?|keto|christian|muslim|jewish|hindu|buddhist|atheist|catholic)\b.*", _affirmed("is", "preference")),
    (rf"be {_NOT}{_ADV}(?P<v>married|single|divorced|engaged|widowed)\b(?! to (?:my|this|the) )(?!-).*", lambda m: Said("preference", [{"not civil status" if _denied(m) else "civil status": m["v"].lower()}])),
    (r"(?:full |first |real )?name be (?P<v>.+)", _one("name", "preference")),
    (r"(?:go by|be called|be named) (?P<v>.+)", _one("name", "preference")),
    (r"be (?P<v>(?-i:[A-Z][a-z]+)(?: (?-i:[A-Z][a-z]+))?)$", lambda m: Said("preference", [{"nationality" if m["v"].endswith(("ish", "an", "ese", "ch")) else "name": plain(m["v"])}])),
    (rf"be {_ADV}(?:about |almost |turning |nearly )?(?P<v>\d{{1,3}}|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty)(?:[- ]\w+)?|eighteen|nineteen)(?: years? old| y/?o| years of age)?$", _one("age", "preference")),
    (rf"(?P<no>do not |no longer |never )?{_ADV}(?:have )?(?:been )?(?:live|living|lived|reside|be based|be living|be located|be staying|moved here) (?:in|at|near|on|outside) (?P<v>.+)", _home),
    (r"(?:be|come) (?:originally )?from (?P<v>(?!.*\b(?:team|department|company|office|support|work|home|sales|hr|it)$).+)|(?:grew up|was raised|was born|spent my childhood) (?:in|on|near|around|outside) (?P<w>.+)", _from),
    (r"(?P<k>phone|car|laptop|commute) be (?P<v>(?:(?-i:[A-Z0-9])|an? |the |\d).+)", lambda m: Said("preference", [{plain(m["k"]): plain(m["v"])}])),
    (r"be (?:about |around )?(?P<v>\d[\d.]* ?(?:cm|m|meters|feet|ft|foot)\b.*?)(?: tall)?$", _one("height", "preference")),
    (r"weigh (?:about |around )?(?P<v>\d.*)", _one("weight", "preference")),
    (r"(?P<k>nickname|last name|surname|middle name|age|birthday|phone number|number|email|email address|address|hometown|home town|time ?zone|pronouns|height|weight|shoe size|blood type|zodiac sign|star sign|nationality|username) (?:be|is) (?P<v>.+)", lambda m: Said("preference", [{plain(m["k"]): plain(m["v"])}])),
    (r"(?P<no>do not have|have no|do not own|have never had|have not got)(?: any| an?)? (?P<v>(?:[\w-]+ ){0,2}(?:kids?|cats?|dogs?|child|children|siblings?|brothers?|sisters?|sons?|daughters?|pets?|car|wife|husband|girlfriend|boyfriend|partner|allergies))$", _affirmed("has", "preference")),
    (r"(?:have|own|got) (?P<v>(?:an? |\w+ )(?:[\w-]+ ){0,2}(?:kids?|cats?|dogs?|child|children|siblings?|brothers?|sisters?|sons?|daughters?|pets?|puppy|kitten|parrot|rabbit|twins|hamster|horse|car|wife|husband)(?:,? (?:named|called|and) .*|, .*)?)$", _affirmed("has", "preference")),
    (r"(?:have|suffer from) (?P<v>(?:[\w-]+ ){0,3}(?:diabetes|asthma|adhd|anxiety|depression|high blood pressure|migraines|insomnia|dyslexia|celiac disease|arthritis|epilepsy|hay fever|ibs|autism))\b.*", _affirmed("health", "preference")),
    (r"(?:want|dream of|would (?:love|like)|hope) (?:to )?(?P<v>(?:learn|learning|visit|visiting|become|becoming|travel|live|living|write|own|owning|get better|improve|retire|run|start|see|go) ?.*)", _listed("wish", "preference")),
)  # fmt: skip
RULES = tuple((re.compile(pattern, re.IGNORECASE), make) for pattern, make in _RULES)
_TO_OWNER = re.compile(
    r"\b(?:(?:comes?|come) (?:first|before)|(?:be|is|are) (?:[\w-]+ ){0,3}(?:important|essential|everything|priority|crucial|non-negotiable)|matters?(?: [\w ]{1,20})?|means? (?:everything|a lot|the world))(?: [\w ]{0,20})?\b(?:for|to|in|than)\b (?:me|them|him|her|the user|my life|anything|everything|work|money)\b",
    re.IGNORECASE,
)


_LASTING = re.compile(
    r"^have (?:(?P<often>always|never) (?P<verb>like|love|hate|enjoy|prefer|want)d?(?:ed)? |been (?=(?:an? )?(?:vegan|vegetarian|pescatarian|married|single|divorced|retired|unemployed|self-employed)\b))",
    re.IGNORECASE,
)


def _lasting(match: "re.Match[str]") -> str:
    """Have always loved is love, have been vegan is be vegan."""
    if match["verb"] is None:
        return "be "
    return f"{'never ' if match['often'].lower() == 'never' else ''}{match['verb']} "


#: "I love it", "I like this answer": said of what is at hand, which no memory can name.
POINTING = re.compile(
    r"\b(?:it|you|your|these|those)\b|(?<!believe )(?<!think )(?<!feel )(?<!hold )\bthat\b|^(?:\w+ ){1,2}(?:how|when|what|where)\b"
    r"|\bthis\b(?! (?:year|week|month|summer|winter|spring|autumn|fall|morning|evening|weekend|semester)\b)",
    re.IGNORECASE,
)
_FAVOURITE = re.compile(
    r"(?P<v>[\w' -]{1,40}?) (?:is|are) (?:my|the user's|their|his|her) (?:all-time |absolute )?favou?rite (?P<k>.+)",
    re.IGNORECASE,
)


def profile_facts(said: str) -> Said | None:
    """What the words after a subject say that lasts; None when they say nothing of the kind."""
    if POINTING.search(said):
        return None
    said = _LASTING.sub(_lasting, said)
    for pattern, make in RULES:
        if (match := pattern.match(said)) and (found := make(match)) is not None:
            return found
    return None


def regardless_of_subject(clause: str) -> Said | None:
    """What is said of the owner though something else is the subject: "family comes first for me"."""
    if match := _FAVOURITE.match(clause):
        return _of(match)
    if not _TO_OWNER.search(clause):
        return None
    return Said("value", [{f"value:{plain(re.sub(r'(?i)the user|me|my|them|him|her', '', clause))}": YES}])
