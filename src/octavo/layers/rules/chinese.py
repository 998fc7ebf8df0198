"""The facts of a Chinese sentence: clause by clause, each with the subject it speaks of."""

import re

from octavo.layers.rules.chinese_events import (
    at_any,
    event_category,
    matters_to_owner,
    names_another,
    only_happens,
    said_category,
)
from octavo.layers.rules.chinese_telling import ChineseTeller
from octavo.layers.rules.clauses import (
    DEEPEST,
    INTRODUCING,
    ClauseSubject,
    ReadingContext,
)
from octavo.layers.rules.facts import (
    CHINESE,
    OF_LIFE,
    OF_SELF,
    YES,
    StatedFact,
    is_personal,
    plain,
)
from octavo.layers.rules.learned import Clause
from octavo.layers.rules.moments import times
from octavo.layers.rules.profile import CHINESE_PROFILE, compared_day
from octavo.layers.rules.sentences import Sentence, clauses_zh
from octavo.search.subject import begins_with_name

DETAILS = ("（", "）")


def read_chinese(sentence: Sentence, context: ReadingContext) -> None:
    """Add the facts about the owner in one sentence, in order, to what the context has found."""
    context.begin(sentence.text)
    reader = ChineseReader(context)
    clauses = clauses_zh(sentence.text)
    supposed = False
    theirs = False  # whether a clause without a subject goes on about somebody or something else
    for at, written in enumerate(clauses):
        clause = reader.with_relation(written)
        if (match := CHINESE.AS_ONE.match(clause)) and "我" in "".join(clauses[at : at + 2]):
            role = "是" + clause[match.end() :].partition("我")[0]  # 作为老师，我…; but 作为回报，我…
            role = role[1:].removesuffix("的人") if "了" in role else role  # 作为一个开了六年青旅的人
            clause = f"我{role}" if CHINESE_PROFILE.statement(role) or is_personal(role, OF_LIFE) else clause
        if reader.ordered and re.match("[他她](?!们)", clause) and not (context.open or context.narrated):
            kin = CHINESE.RELATIONS.search(clauses[at - 1])  # 给老丈人写个寿联，他属马
            clause = f"我{kin[0]}{clause[1:]}" if kin else clause
        learnt = CHINESE.LEARNT.search(clauses[at - 1]) if at else None
        if learnt and (match := CHINESE.PRACTISED.fullmatch(clause)):
            clause = match["often"] + learnt["what"] + match["much"]
        bare = clause[reader.after_leading(clause) :]
        if not bare and times(clause, context.at):
            if context.open:  # 看牙医，下午三点: that is when
                context.add_time(clause, DETAILS)
            continue
        if not bare:
            context.others += written  # 谢天谢地
        if at == 0 and begins_with_name(bare):
            # 静雯租在五象，跟两个同事合住: the next clause is hers too.
            context.about_owner = False
            continue
        theirs = reader.is_theirs(clause, clauses[at - 1] if at else "", before=theirs)
        if (theirs or reader.is_nobodys(bare)) and not (sentence.asks and at == len(clauses) - 1):
            if context.open:
                context.add_detail(reader.in_third_person(clause), DETAILS)
            elif theirs and "姓" in clause:  # 船老大姓贺: whoever that is, the user named them
                context.add(reader.stated("preference", clause, None, f"says:{plain(clause)}"))
            else:
                context.others += clause
            continue
        if context.open and "不再" in context.found[-1].content and bare.startswith("改成"):
            clause = bare = f"我{bare}"  # 我不再跑步了，改成游泳
        first = at == 0 and CHINESE.BY_ITSELF.match(bare) and not CHINESE.COMMAND.match(bare)
        first = first and (clause == f"本人{bare}" or (clause == bare and len(clauses) > 1))
        first = first and not (sentence.asks or CHINESE.ASKED.search(sentence.text))
        if (context.introducing or first) and "点" not in clause and reader.is_bare(bare):
            clause = bare = f"我是{bare}"  # 我叫邬梦洁，河南信阳人，大四在读; 大厂产品经理，天天加班
        unreal = any(map(CHINESE.SUPPOSED.search, (clause, bare))) or CHINESE.HEARSAY.search(clause)
        # What follows a condition holds only if it does; what follows 但 holds anyway.
        supposed = (supposed and not re.match("但|不过|可是|反正", written)) or bool(unreal)
        if supposed:
            context.open = False
            continue
        # 用户问我怎么学英语: told, not asked
        asks = CHINESE.ASKED.search(clause) is not None and not (
            CHINESE.HAS_ASKED.search(clause) or CHINESE.STANDING.search(clause)
        )
        if reader.ordered and CHINESE.TO_SAY.match(clause):
            break  # 帮我写封邮件，说我病了: whoever says it, it is to be said
        reader.ordered = reader.ordered or CHINESE.COMMAND.match(bare) is not None
        asks = asks or (sentence.asks and at == len(clauses) - 1)
        if asks and (cut := CHINESE.ASKING.search(clause)):
            known = clause[: cut.start()]  # 我对猫毛过敏能养猫吗, 我那辆开了九年的飞度要不要换电池
            if CHINESE.OWNED.match(known) or ((known[:1] == "我" or context.open) and is_personal(known)):
                clause, bare, asks = known, known[reader.after_leading(known) :], False
        about_new = CHINESE.OF_NEW.match(bare) and context.introduced(CHINESE.INTRODUCED)
        narrows = CHINESE.NARROWS.match(clause)  # 我对海鲜过敏，特别是虾
        # 买了个扫地机器人，到手就后悔了
        follows = any(map(CHINESE.FOLLOWS.match, (clause, bare))) or reader.is_stay(clause)
        if narrows and not context.open:
            continue
        # 养了一只鹦鹉，叫奶黄包: that is not the owner's name
        adds = context.open and not asks and (about_new or narrows or follows or reader.is_part(bare))
        facts = [] if adds or asks or CHINESE.WISHING.search(clause) else reader.clause_facts(clause)
        adds = adds or (bool(facts) and reader.is_of_last(clause, facts[0]))
        if adds or (not facts and not asks and context.open and reader.is_detail(clause)):
            # 我又搬家了，这次搬到绵阳
            moved = None if CHINESE.OF_OTHER.match(bare) else reader.implied(clause)
            context.add_detail(reader.in_third_person(clause), DETAILS, moved)
        else:
            context.add(facts)
            # 离婚四年了，他没给过钱: who speaks of themselves speaks of another as 他.
            context.first_person = context.first_person or (bool(facts) and not re.match("[他她]", bare))


class ChineseReader(ChineseTeller):
    """Reads Chinese clauses."""

    #: Whether the sentence has asked for something: 算下月供，贷一百万三十年 says nothing of anybody.
    ordered = False

    def with_relation(self, clause: str) -> str:
        """安然住校, when it is known who that is: 我妹妹安然住校."""
        at = self.after_leading(clause) if self.context.people else 0
        who = next((who for name, who in self.context.people.items() if clause.startswith(name, at)), None)
        return f"{clause[:at]}我{who}{clause[at:]}" if who else clause

    def leave_out(self, clause: Clause, *, follows: bool | None) -> bool:
        """Whether a clause of any shape is no fact by itself: it tells of somebody or something else."""
        del follows
        return begins_with_name(clause.text) or clause.text in self.context.others

    def is_theirs(self, clause: str, last: str, *, before: bool) -> bool:
        """Whether a clause tells of somebody or something else; `last` is the clause before it, and `before` whether that did."""
        bare, subject = clause[self.after_leading(clause) :], self._subject(clause)
        if self.context.narrated or self.context.owner_type == "agent" or subject.owner or subject.possessive:
            return False
        if CHINESE.THEIRS.match(bare) or "我" in clause or subject.owner is False:
            return CHINESE.THEIRS.match(bare) is not None
        self_told = self.context.last and not INTRODUCING.isdisjoint(self.context.last.slots)
        # 办了个养蜂场，叫金坳蜂场: it is not the owner who is called so; 地铁道歉了，还送了狗粮
        named = CHINESE.NAMING.match(bare) and len(last) > 3 and "介绍" not in last and not self_told
        same = not self.context.open and CHINESE.SAME_DOES.match(clause) and CHINESE.THEY_DID.match(last)
        return bool(before or named or same)

    def is_of_last(self, clause: str, fact: StatedFact) -> bool:
        """焙茶房失火，烧了两百斤: whether what did it stands in the clause before."""
        told = self.context.last is not None and self.context.last.content.startswith(f"{self.name}：")
        did = fact.category in ("action", "other") and not fact.time_text and "了" in clause
        return told and did and "我" not in clause and self._subject(clause).owner is None

    def is_nobodys(self, bare: str) -> bool:
        """Whether a clause is only a number, a price of goods or the weather: by itself it says nothing of anybody."""
        if self.context.narrated or not CHINESE.NOBODYS.match(bare):
            return False
        return CHINESE_PROFILE.statement(bare) is None and not is_personal(bare, OF_SELF)

    def clause_facts(self, clause: str, depth: int = 0) -> list[StatedFact]:
        """What one clause says of the owner; `depth` is how often somebody told that somebody told."""
        if depth > DEEPEST:
            return []
        bare = clause[self.after_leading(clause) :]
        standing = CHINESE.STANDING.search(clause) or CHINESE.STANDING.search(CHINESE.WISHED.sub("", bare))
        if self.context.owner_type == "user" and standing and not re.match("我(?!希望)", bare):
            wish = CHINESE.WISHED.sub("", re.sub("请|麻烦|你", "", clause[self.after_fillers(clause) :]))
            key = plain(re.sub("我|自己", "", wish))
            content = f"用户希望{wish.replace('我', '自己')}"
            return [StatedFact("profile", "preference", content, {f"wish:{key}": YES})]
        to_agent = self.context.owner_type == "agent" and bare.startswith(("你", "您"))
        told = bare.startswith("把") and times(clause, self.context.at)  # 前天把旧手机卖给回收的
        if CHINESE.COMMAND.match(bare) and not to_agent and not told:
            return []
        if (statement := CHINESE_PROFILE.about_owner(clause)) is not None:
            content = self.in_third_person(clause[self.after_fillers(clause) :])
            return [StatedFact("profile", statement.category, content, statement.slots[0])]
        subject = self._subject(clause)
        said = clause[subject.said :]
        done = subject.owner is not False and CHINESE.DONE_TALKING.fullmatch(said)
        if done and not self._daily(clause, said):
            return []
        if (match := CHINESE.REPORT.match(said)) and len(match[0]) < len(said):
            return self._reported(clause, subject, match.end(), depth)
        match = CHINESE.OPINION.match(said) if subject.owner is not False else None
        if match and len(match[0]) < len(said):
            if (profile := CHINESE_PROFILE.statement(said)) is not None:
                return self.lasting(profile, clause, subject)
            whose = match[0][-1] if match[0][-1] in "我他她" else ""
            return self.clause_facts(whose + said[match.end() :], depth + 1)
        found = self._owner_facts(clause, subject)
        return found if found or depth else self._stated(clause, subject)

    def is_bare(self, bare: str) -> bool:
        """Whether a clause names only what somebody is: 河南人, 程序员."""
        short = re.fullmatch("(?![学出收求])[^了过有是都得也会不]{2,8}(?:了|一[个枚])?", bare)
        if not short or CHINESE.COMMAND.match(bare) or self._subject(bare).owner is not None:
            return False
        statement = CHINESE_PROFILE.statement
        return statement(bare) is None and statement(f"是{bare}") is not None

    def _is_topic(self, clause: str) -> bool:
        """Whether a clause goes on about the owner by another thing of theirs: 数学还可以."""
        alone = self.context.introducing and not self.after_leading(clause)  # but 现在是产品经理
        return alone and CHINESE.TOPIC.match(clause) is not None

    def is_part(self, bare: str) -> bool:
        """Whether a clause is only a number, a price or a place of what was said before it."""
        if self.context.last and self.context.last.layer == "event" and CHINESE.PARTS_THEN.match(bare):
            return True
        return CHINESE.PARTS.match(bare) is not None and not (
            self.context.introducing and CHINESE.AGED.fullmatch(bare)
        )

    def is_stay(self, clause: str) -> bool:
        """Whether a clause says where somebody slept on the trip before it: 住在朋友家 is then no home."""
        last = self.context.last
        trip = last is not None and last.layer == "event" and CHINESE.TRIP.search(last.content)
        return bool(trip and CHINESE.STAYED.match(clause))

    def is_detail(self, clause: str) -> bool:
        """Whether a clause only adds to the one before it: a price, a place, the name of a cat."""
        bare = clause[self.after_leading(clause) :]
        # 在老城区那个红砖厂，这次搬到绵阳
        at_hand = CHINESE.AT_HAND.search(clause) and not clause.startswith(("在", "这次", "这回"))
        if at_hand or CHINESE.COMMAND.match(bare) or CHINESE.WISHING.search(clause):
            return False
        return self._subject(clause).owner is None or CHINESE.OF_OTHER.match(bare) is not None

    def _stated(self, clause: str, subject: ClauseSubject) -> list[StatedFact]:
        """What the owner says of themselves, their people and things in a shape that no rule knows, kept as it was said."""
        short = subject.possessive and len(clause) - subject.said < 2  # 记性还特别差
        said = clause[subject.end if short else subject.said :]
        if self.context.owner_type == "agent" or CHINESE.AT_HAND.search(clause) or len(said) < 2:
            return []
        if subject.possessive:
            return self._of_owners(clause, subject, said)
        if subject.owner is False or (
            subject.owner is None and (self.context.narrated or not self.context.about_owner)
        ):
            return []
        fronted = CHINESE.OBJECT_FIRST.match(said) and not CHINESE.LASTS.search(said)  # 旧沙发我卖掉了
        then = times(clause, self.context.at) and CHINESE.DID_THEN.match(said)  # 今天下午提了新车
        if subject.owner is None and (CHINESE.DID.match(said) or fronted or then):
            return self._happening("action", clause, subject)
        last = self.context.last
        now = CHINESE.TURN.match(clause) or (last and CHINESE.TURN.match(f"{last.content}，{clause}"))
        quitting = last is not None and CHINESE.QUITTING.search(last.content) and CHINESE.AT_WORK.match(said)
        studying = last is not None and last.category == "education" and clause.startswith(("学", "读", "念"))
        also = last is not None and (
            (last.layer == "profile" and CHINESE.ALSO.match(CHINESE.IN_DEALING.sub("", clause)))
            or (CHINESE.PARALLEL.match(last.content) and CHINESE.PARALLEL.match(clause))  # 我下棋，打牌
            or (quitting and now)
            or studying
            or (last.category == "personality" and re.fullmatch("[^了过是有]{4}", clause))  # 没耐心，丢三落四
        )
        if last or self.ordered:
            personal = len(said) > 3 and is_personal(clause)
        else:
            personal = is_personal(said, OF_LIFE)
        own = personal and (last or not CHINESE.GENERAL.search(said))  # but 狗不能吃葡萄, 关掉空调
        told = (
            subject.owner
            or also
            or self._is_topic(clause)
            or CHINESE.MENTIONS.search(clause)
            or self._for_years(clause)
            or own
            or (len(clause) > 3 and any(map(CHINESE.OWN_LIFE.match, (clause, said))))
        )
        empty = CHINESE.NO_TALK.match(said) and not (said.startswith("在") and is_personal(said))
        if not told or empty or CHINESE.STOPPED.fullmatch(said):
            return []
        trait = re.search("这个?人", clause[subject.start : subject.said])  # 我这人认死理
        category = "education" if studying else "personality" if trait else said_category(said)
        if last and last.category == "ability" and self._is_topic(clause):
            category = "ability"  # 我会写后端，前端一窍不通
        if last and now and (last.category == "career" or quitting):
            category = "career"  # 我不当护士了，现在摆花摊
        return self.stated(category, clause, subject, f"says:{plain(said)}")

    def _of_owners(self, clause: str, subject: ClauseSubject, said: str) -> list[StatedFact]:
        """我老婆田蜜是麻醉医生: what is said of the owner's people and things."""
        died = said.startswith("走了") and "年" in clause  # 我爸前年走了; but 我爸昨天走了
        if CHINESE.NO_TALK_OF.match(said) and not died:
            return []
        statement = CHINESE_PROFILE.statement(said)
        if statement is None and re.search("了|过(?!敏)", said) and times(clause, self.context.at):
            return self._happening("event", clause, subject)
        who = plain(clause[subject.start : subject.end].lstrip("我们咱家的用户"))
        slots = statement.slots if statement else []
        return self.of_owners(who, slots, said, self.content(clause, subject))

    def _reported(self, clause: str, subject: ClauseSubject, length: int, depth: int) -> list[StatedFact]:
        """What somebody told: of the owner, if the owner told it of themselves or somebody else of the owner."""
        himself = subject.owner is None and "自己" in clause[subject.said :][:length]
        if not self.context.narrated and (himself or re.match("[他她]", clause[subject.start :])):
            return []  # 碰到个老外，说自己住在东北; 她说她没坐过飞机
        before = self.context.about_owner
        speaker = before if subject.owner is None else subject.owner
        inner = clause[subject.said + length :]
        self.context.about_owner = speaker
        self.context.moment(clause[: subject.said + length])
        if found := self.clause_facts(inner, depth + 1):
            self.context.about_owner = True
            if subject.owner is False:
                known = [fact for fact in found if fact.category == "personality"]  # the rest is only said
                return [fact._replace(content=self.content(clause, subject)) for fact in known[:1]]
            return [fact for fact in found if fact.layer == "profile"] or found
        self.context.about_owner = speaker if subject.owner is not None else before
        if (
            speaker
            and (subject.owner or self.context.narrated)  # 说重点 is an order
            and CHINESE.TOLD.match(clause[subject.said :])
            and self.context.about_owner
            and not CHINESE.OTHERS.match(inner)
            and not re.match(rf"(?:他|她|我)的?{CHINESE.RELATIONS.pattern}", inner)
        ):
            return self._happening("conversation", clause, subject)
        return []

    def _owner_facts(self, clause: str, subject: ClauseSubject) -> list[StatedFact]:
        """What the words after a subject say: something that lasts, a habit, or something that happened."""
        said = clause[subject.said :]
        found = times(clause, self.context.at)
        timed = (
            any(not when.words.endswith("年的") for when in found)
            or CHINESE.SEASON.search(clause, 0, subject.said) is not None
        )  # 清明回老家扫墓
        ahead = any(when.at and when.at > self.context.at for when in found)
        dated = ahead and any(re.search("[号下明后].*点|下.*[周期拜].|后天", when.words) for when in found)
        happens = only_happens(said, timed, dated)
        profile = None if happens else CHINESE_PROFILE.statement(CHINESE.WITH.sub("", said))
        if subject.owner is False:
            thing = CHINESE.BARE_THING.match(clause, subject.start) is not None
            self.context.about_owner = thing and "姓" not in said
            matters = subject.kin and matters_to_owner(said)
            return self._happening("event", clause, subject) if matters else []
        if self._is_topic(clause):
            return []  # 我做饭一般，收纳是强项: nobody is called 收纳
        another = names_another(said, timed) or self._of_another(clause, subject)
        if subject.owner is None and profile is None and another:
            self.context.about_owner = False  # 小明是医生: somebody else, and so is whoever "他" is next
            return []
        if subject.owner is None and not self.context.about_owner:
            return []
        self.context.about_owner = True
        if profile is not None:
            if "age" in profile.slots[0] and (ahead or CHINESE.COMING.search(clause)):
                profile = profile._replace(slots=[{"age": f"<{profile.slots[0]['age']}"}])  # 快三十了
            return self.lasting(profile, clause, subject)
        day = "".join(when.words for when in found)
        if CHINESE.DAY_OF_YEAR.search(day) and CHINESE.BORN.fullmatch(said):
            slots = {"birthday": compared_day(day)}
            return [StatedFact("profile", "preference", self.content(clause, subject), slots)]
        last = self.context.last
        again = last and any(key.startswith("habit:") for key in last.slots) and at_any(found, said)
        habit = again or (subject.owner and self._daily(clause, said)) or CHINESE.HABIT.search(clause)
        if habit and not re.match("在|.*[了过我]", said):
            hour = CHINESE.HOUR.search(clause)  # 六点起床 and 七点起床 are no two habits, and not the same
            return self.stated(
                "preference", clause, subject, f"habit:{plain(said)}", hour[0] if hour else YES
            )
        before = clause[subject.end if subject.owner else 0 : subject.said]
        done = re.search("刚|已经|终于|总算|正", before) is not None
        owns = subject.owner or self._for_years(clause)
        if owns and not timed and not done and CHINESE.LASTS.search(said):
            # 结婚五年了, 去过西藏: it happened, and it is so for good
            return self.stated(said_category(said), clause, subject, f"says:{plain(said)}")
        category = event_category(said, timed=timed, sure=subject.owner is True, done=done)
        if category == "conversation" and ahead:
            category = "meeting"  # 后天跟供应商谈价格
        weather = CHINESE.WEATHER.search(said) and not CHINESE.AHEAD.match(said)  # 明天要下雨: of nobody
        about_owner = bool(
            (CHINESE.FEELING.match(said) or weather) and (timed or subject.owner or self.context.when)
        )
        if category is None and about_owner and (timed or subject.owner or self.context.when):
            category = "other"
        if (category is None and ahead and CHINESE.AT_HOUR.search(clause)) or (
            category == "other" and ahead and subject.owner and not about_owner
        ):
            category = "action"  # 明早八点空腹抽血, 我25号的航班回国
        if category == "other" and not about_owner and (subject.owner is None or at_any(found, said)):
            return []
        of_another = subject.owner is None and not (timed or done) and CHINESE.GENERAL.search(said)
        return self._happening(category, clause, subject) if category and not of_another else []

    def _daily(self, clause: str, said: str) -> bool:
        """我晚上九点就睡: an hour and no day."""
        found = times(clause, self.context.at)
        return "点" in clause and at_any(found, said) and not CHINESE.AHEAD.match(said)

    def _for_years(self, clause: str) -> bool:
        """离婚两年, 戒烟第三周; but 签了合同，工期两年 and 算下月供，贷一百万三十年."""
        alone = not self.ordered and (self.context.last is None or "第" in clause)
        return alone and CHINESE.FOR_YEARS.match(clause) is not None

    def _of_another(self, clause: str, subject: ClauseSubject) -> bool:
        """豆豆昨天走了: a name before the time, and after it something that people do by themselves."""
        return any(
            when.start - subject.said in (2, 3) and CHINESE.OF_ITS_OWN.match(clause, when.end)
            for when in times(clause, self.context.at)
        )

    def _happening(self, category: str, clause: str, subject: ClauseSubject) -> list[StatedFact]:
        """What happened to the owner, or to somebody close to them."""
        implies = subject.owner is not False
        if self.context.owner_type == "agent" and clause.startswith("用户", subject.start):
            self.context.about_owner = False  # 用户今天告诉我他是工程师，毕业于北大: not the agent
            if category != "conversation":
                return []
        return self.event(category, clause, subject, clause[subject.said :], implies=implies)
