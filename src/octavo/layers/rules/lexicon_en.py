"""The English words by which the rules know what a clause is about."""

import re


def either(*lists: str) -> str:
    """An alternation of the phrases of the lists (split at |), longest first."""
    phrases = sorted({phrase.strip() for one in lists for phrase in one.split("|")}, key=len, reverse=True)
    return "(?:" + "|".join(re.escape(phrase).replace(r"\ ", " ") for phrase in phrases) + ")"


FILLERS = either(
    "and|but|so|also|actually|btw|well|honestly|by the way|then|plus|because|although|though|besides|additionally|to be honest|of course|anyway|oh|hi|hello|hey|"
    "yes|no|yeah|nope|ok|okay|thanks|remember that|remember|note that|keep in mind that|just so you know|fyi|for the record|as you know|please remember that|please note that|"
    "please remember|don't forget that|do not forget that|as a side note|in fact|in general|in total|after all|after thinking about it|finally|eventually|meanwhile|sadly|unfortunately|luckily|"
    "turns out|it turns out that|update|correction|for context|one more thing|first of all|these days|nowadays|professionally|personally|in my free time|in my spare time|on weekends|"
    "at work|at home|for work|outside of work|at university|in college|when i was young|growing up|as a kid|for breakfast|guess what|sorry|hmm|um|right now|at the moment|for now|since then"
)
ADVERBS = either(
    "really|very|quite|pretty|also|just|now|currently|still|always|never|usually|often|sometimes|normally|generally|mostly|mainly|absolutely|totally|definitely|certainly|actually|honestly|simply|"
    "strongly|deeply|truly|genuinely|firmly|particularly|especially|both|recently|finally|already|ever|rarely|seldom|hardly ever|probably|basically|kind of|kinda|sort of|a bit|a little|rather|fairly|so|"
    "super|extremely|incredibly|somewhat|a lot|naturally|by nature|officially|long|only|even|recently|no longer|once|then|together|both|personally|occasionally|soon|apparently|typically|highly|all|frequently|at heart|too|more|most|way|not only"
)
RELATIONS = either(
    "mother|mom|mum|father|dad|parents|brother|sister|wife|husband|partner|girlfriend|boyfriend|fiance|fiancee|fiancé|fiancée|spouse|son|daughter|kid|kids|child|children|baby|grandmother|grandfather|grandma|grandpa|"
    "uncle|aunt|cousin|cousins|nephew|niece|friend|friends|best friend|colleague|colleagues|coworker|coworkers|co-worker|boss|manager|neighbor|neighbour|roommate|flatmate|teacher|professor|advisor|doctor|landlord|client|team|family|dog|cat"
)
KIN = either(
    "mother|mom|mum|father|dad|parents|brother|sister|wife|husband|partner|girlfriend|boyfriend|fiance|fiancee|fiancé|fiancée|spouse|son|daughter|kid|kids|child|children|baby|grandmother|grandfather|grandma|grandpa|"
    "uncle|aunt|cousin|nephew|niece|friend|best friend|roommate|flatmate|dog|cat|twins|family"
)
LANGUAGES = either(
    "english|french|german|spanish|italian|portuguese|mandarin|chinese|cantonese|japanese|korean|russian|arabic|hindi|dutch|swedish|norwegian|danish|polish|turkish|greek|hebrew|thai|vietnamese|latin|ukrainian|czech|finnish|urdu|bengali|tamil|sign language|esperanto"
)
TECH = either(
    "python|java|javascript|typescript|rust|go|golang|c\\+\\+|c#|c|ruby|php|swift|kotlin|scala|haskell|sql|excel|photoshop|figma|docker|kubernetes|react|vue|angular|django|aws|azure|linux|git|html|css|matlab|r|terraform|pytorch|tensorflow|postgres|redis|blender|cad|autocad|latex|elixir|perl|bash|node"
).replace("\\\\", "\\")
SKILL_VERBS = either(
    "play|speak|read|write|code|program|cook|bake|swim|drive|ski|snowboard|dance|sing|draw|paint|juggle|type|touch-type|ride|sew|knit|fix|repair|build|translate|surf|sail|fly|understand|solve|design|lift|do a|do the|whistle|dive|scuba dive|skate|sign|recite|memorize|climb|hold a conversation|debug|edit|make furniture|run a marathon|use"
)
_JOBS = (
    "engineer|developer|programmer|coder|manager|director|designer|architect|analyst|scientist|researcher|consultant|nurse|doctor|surgeon|dentist|physician|vet|veterinarian|pharmacist|therapist|psychologist|psychiatrist|paramedic|"
    "teacher|professor|lecturer|tutor|instructor|coach|librarian|lawyer|attorney|paralegal|judge|accountant|auditor|banker|broker|trader|economist|actuary|chef|cook|baker|waiter|waitress|bartender|barista|"
    "writer|author|editor|journalist|reporter|translator|interpreter|copywriter|blogger|poet|artist|painter|illustrator|photographer|filmmaker|musician|singer|actor|actress|dancer|producer|animator|composer|dj|"
    "driver|pilot|mechanic|electrician|plumber|carpenter|welder|builder|farmer|gardener|fisherman|firefighter|cop|police officer|officer|soldier|veteran|guard|cleaner|janitor|cashier|clerk|receptionist|secretary|assistant|"
    "administrator|admin|salesperson|salesman|rep|marketer|recruiter|founder|co-founder|cofounder|entrepreneur|ceo|cto|cfo|coo|vp|president|executive|owner|freelancer|contractor|intern|apprentice|technician|tester|operator|"
    "specialist|strategist|planner|coordinator|supervisor|lead|team lead|tech lead|head|partner|principal|dean|social worker|civil servant|diplomat|politician|priest|pastor|monk|biologist|chemist|physicist|mathematician|historian|"
    "geologist|astronomer|statistician|investor|realtor|real estate agent|travel agent|flight attendant|tour guide|hairdresser|barber|stylist|model|tailor|butcher|optometrist|midwife|caregiver|nanny|babysitter|homemaker|housewife|"
    "stay-at-home mom|stay-at-home dad|stay-at-home parent|youtuber|streamer|influencer|podcaster|pm|sre|devops|dba|swe|qa|hr generalist|ux researcher|carer|zookeeper|florist|jeweler|radiologist|cardiologist|anesthesiologist|goldsmith|potter|luthier"
)
OCCUPATION = re.compile(rf"(?:^|[ -])(?:{either(_JOBS)[3:-1]})s?$", re.IGNORECASE)
TRAITS = either(
    "introverted|extroverted|extraverted|introvert|extrovert|ambivert|shy|outgoing|quiet|talkative|chatty|patient|impatient|stubborn|easygoing|easy-going|easy going|laid-back|laid back|calm|anxious|optimistic|optimist|pessimistic|pessimist|"
    "cheerful|moody|sensitive|emotional|rational|logical|analytical|creative|curious|careful|careless|cautious|reckless|impulsive|organized|organised|disorganized|disorganised|messy|tidy|neat|punctual|lazy|hardworking|hard-working|diligent|"
    "ambitious|competitive|humble|modest|arrogant|confident|insecure|independent|loyal|honest|sincere|blunt|direct|straightforward|funny|serious|sarcastic|kind|generous|stingy|friendly|reserved|reliable|responsible|perfectionist|procrastinator|"
    "workaholic|overthinker|worrier|people pleaser|detail-oriented|detail oriented|adventurous|risk-averse|open-minded|narrow-minded|empathetic|empathic|compassionate|tolerant|assertive|timid|brave|forgetful|absent-minded|clumsy|disciplined|"
    "self-disciplined|spontaneous|thoughtful|pragmatic|practical|romantic|idealist|idealistic|realist|realistic|skeptical|sceptical|cynical|nerdy|geeky|quirky|loner|social butterfly|socially awkward|awkward|hot-headed|short-tempered|"
    "even-tempered|energetic|enthusiastic|passionate|soft-spoken|bossy|jealous|trusting|gullible|meticulous|methodical|indecisive|decisive|night owl|early bird|morning person|people person|team player|homebody|goofy|grumpy|witty|stoic|resilient|private|self-critical|control freak|positive|negative|warm|cold|restless|flexible|rigid|strict|gentle|proactive|chill|level-headed|conscientious|quick learner|fast learner|good listener|great listener|hard worker|deep thinker|dreamer|drama queen|self-starter|risk taker|risk-taker|go-getter|fighter|giver|minimalist|nerd|early riser|light sleeper|heavy sleeper"
)
ANTONYMS = {
    "extroverted": "introverted", "extraverted": "introverted", "extrovert": "introverted", "outgoing": "introverted", "impatient": "patient", "pessimistic": "optimistic",
    "pessimist": "optimistic", "lazy": "hardworking", "disorganized": "organized", "disorganised": "organized", "messy": "organized", "insecure": "confident", "careless": "careful", "early bird": "night owl",
    "morning person": "night owl", "indecisive": "decisive",
}  # fmt: skip
SAME_TRAITS = {
    "introvert": "introverted",
    "optimist": "optimistic",
    "hard-working": "hardworking",
    "organised": "organized",
    "easy-going": "easygoing",
    "easy going": "easygoing",
}
MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec"
STATES = either(
    "tired|exhausted|sick|ill|sad|happy|glad|upset|angry|mad|annoyed|frustrated|stressed|stressed out|worried|nervous|anxious|excited|bored|hungry|thirsty|sleepy|busy|overwhelmed|burned out|burnt out|lonely|depressed|down|"
    "disappointed|proud|relieved|grateful|thrilled|scared|afraid|hungover|jet-lagged|jetlagged|sore|unwell|better|worse|great|awful|terrible|good|bad|fine|late|stuck|lost|confused|dizzy|feverish|in pain|in a good mood|in a bad mood|homesick|swamped|devastated|nauseous|cranky|under the weather"
)
MEETINGS = re.compile(
    r"\b(?:meetings?|stand-?ups?|workshop|conference|webinar|interviews?|retro|retrospective|seminar|one-on-one|1:1|1-on-1|all-hands|kick-?off|sprint (?:review|planning|retro)|design review|(?:performance|annual|quarterly|yearly|mid-year|project|peer) review|check-?in|catch-?up|orientation|onboarding|briefing|debrief|(?:coaching|therapy|brainstorming|strategy|mentoring) session|"
    r"training|lecture|meet-?up|summit|planning session|panel|symposium|board meeting|town hall|tech talk|sync(?: call)?|parent-teacher|hackathon|demo day|client call|offsite|(?:give|gave|giving|attend|attended|attending) an? (?:\w+ )?(?:talk|presentation|demo))\b"
    r"|\bmet (?:up )?with\b|\bmeet(?:ing)? (?:up )?with\b",
    re.IGNORECASE,
)
OCCASIONS = re.compile(
    r"\b(?:wedding|funeral|birthday|party|concert|gig|festival|ceremony|graduation|exhibition|reunion|anniversary|gala|tournament|ball ?game|prom|baby shower|opening night|thanksgiving|christmas dinner|world cup|"
    r"parade|premiere|musical|opera|recital|housewarming|bbq|barbecue|celebration|fireworks|play-?offs?|championship)\b",
    re.IGNORECASE,
)
LIFE = re.compile(
    r"\b(?:(?:got|get|gets|getting|was|were|been|is) (?:married|engaged|promoted|fired|laid off|divorced|hired|robbed|mugged|pregnant|diagnosed|hospitali[sz]ed|admitted|born|accepted|evicted|injured|dumped|a raise|a promotion|a new job)|"
    r"born|died|passed away|moved (?:to|into|out|house|in|from|back)|gave birth|retired|(?:quit|resigned)(?! smoking)|broke up|split up|lost (?:my|his|her|their) job|had (?:surgery|an operation|a baby|an accident|a miscarriage|a car accident)|"
    r"started (?:a new job|at a new|school|college|university|kindergarten|walking)|joined|adopted|won (?:a|an|the|first)|car accident|bought (?:a|our|my|their) (?:first )?house|graduated|turned \d+|got into)\b",
    re.IGNORECASE,
)
TALKS = re.compile(
    r"^(?:(?:have|just|finally|already|be|had|been|will|going to) )*(?:talk(?:ed|ing)?|speak(?:ing)?|spoke|spoken|discuss(?:ed|ing)?|chat(?:ted|ting)?|call(?:ed|ing)?(?! off| it)|phon(?:e|ed|ing)|asked|asking|ask|told|tell|telling|argu(?:e|ed|ing)|consult(?:ed|ing)?|"
    r"debat(?:e|ed)|complain(?:ed|ing)?|apologi[sz]ed?|mentioned|caught up with|video ?called|facetimed|messaged|texted|negotiated|explained|shared with|vented|confided|brainstormed|gossiped|fought with|replied|responded|(?:an? )?(?:long |quick |good |great |heated |difficult |nice |deep |short |phone |video )*(?:call|chat|conversation|talk|discussion|argument|fight|debate) (?:with|about))\b|\bon the phone with\b|\bon a call with\b|\bphone call with\b",
    re.IGNORECASE,
)
DECISIONS = re.compile(
    r"^(?:(?:have|just|finally|already|be|been|had|all|both|ultimately|then|also|now) )*(?:decided|decide|deciding|chose|chosen|opted|settled on|agreed|refused|declined|accepted|made up (?:my|his|her|their|our) minds?|made (?:a|the|my) decision|resolved to|resolve to|committed to|gave up|given up|"
    r"picked(?! up)|went with|going with|gone with|planning|plan to|plan on|intend|intending|ruled out|concluded|determined to|vowed|promised|promise to|leaning towards?|switching (?:to|from|over)|aiming to|hoping to|signed off on|approved|turned down|cancel(?:led|ed) (?:my|our) (?:plan|subscription))\b",
    re.IGNORECASE,
)
AROUND = re.compile(
    r"\b(?:power (?:went|was|is) out|power outage|blackout|flooded|broke down|broken down|crashed|was stolen|got stolen|was cancel(?:l)?ed|got cancel(?:l)?ed|was delayed|got delayed|leak(?:ed|ing)|snowed|rained|earthquake|stopped working|died|fell through|caught fire|internet (?:went|was|is) (?:down|out)|went down|ran away|arrived|is down|was postponed)\b",
    re.IGNORECASE,
)
PAST = frozenset(
    ["went", "bought", "brought", "thought", "taught", "caught", "saw", "took", "gave", "came", "became", "got", "made", "found", "told", "said", "felt", "left", "met", "kept", "slept", "won", "lost", "began", "wrote", "spoke", "drove", "rode", "ate", "drank", "sang", "swam", "ran", "grew", "knew", "flew", "drew", "threw", "wore", "chose", "broke", "fell", "forgot", "heard", "held", "built", "sent", "spent", "sold", "paid", "led", "understood", "stood", "sat", "fought", "sought", "showed", "shook", "hid", "bit", "woke", "stole", "froze", "rose", "dealt", "meant", "shot", "stuck", "struck", "hung", "dug", "lit", "lent", "bent", "slid", "fed", "had", "did", "was", "were", "set", "put", "read", "cut", "hit", "let", "quit", "shut", "cost", "hurt", "beat", "swept", "tore", "laid", "lay", "sewed", "shipped"]
)  # fmt: skip
PRESENT = frozenset(
    ["like", "love", "enjoy", "prefer", "hate", "dislike", "despise", "detest", "loathe", "adore", "work", "live", "run", "own", "manage", "lead", "head", "teach", "study", "speak", "know", "value", "believe", "care", "tend", "play", "drink", "eat", "want", "need", "use", "wear", "think", "feel", "get", "have", "do", "go", "specialize", "specialise", "freelance", "consult", "design", "build", "write", "read", "collect", "watch", "listen", "take", "make", "practice", "practise", "volunteer", "believe", "support", "respect", "cherish", "treasure", "prioritize", "appreciate", "miss", "fear", "dread", "favor", "fancy", "hold", "major", "attend", "coach", "code", "program", "develop", "overthink", "worry", "procrastinate", "struggle", "sleep", "wake", "commute", "travel", "cook", "bake", "swim", "drive", "ski", "dance", "sing", "draw", "paint", "smoke", "exercise", "meditate", "jog", "bike", "cycle", "sell", "trade", "oversee", "handle", "report", "mentor", "train", "grow", "raise", "plan", "intend", "stay", "put", "hope", "suffer", "weigh", "keep", "play", "avoid", "admire", "dream", "love", "start", "follow", "root", "identify", "consider", "see", "belong", "pride", "try", "help", "serve", "hike"]
)  # fmt: skip
