"""What a memory is about, finer than its category: name, birthday, family, home, health, contact, work and the like."""

from collections.abc import Iterable

from octavo.kernel.terms.terms import terms
from octavo.kernel.terms.topics import topic_name, topics

#: What the slots of a fact are about, as the rules name them; of those that are not here the words decide.
_OF_SLOTS = {
    "name": ("name", "nickname", "surname", "last name", "middle name", "昵称", "网名", "英文名", "花名", "小名", "笔名"),
    "birthday": ("birthday", "age", "生肖", "星座", "zodiac sign", "star sign"),
    "contact": ("phone number", "number", "email", "email address", "address", "手机号", "电话", "手机", "邮箱", "微信", "微信号", "地址", "qq", "username"),
    "home": ("residence", "not residence"),
    "hometown": ("home town", "祖籍", "nationality", "民族", "国籍"),
    "family": ("civil status", "not civil status"),
    "health": ("allergy", "health", "血型", "blood type"),
    "work": ("occupation", "employer", "workplace", "work", "works with", "works from", "leads", "business", "experience", "salary", "training", "not occupation", "not employer"),
    "education": ("school", "degree", "study", "student", "studied", "major"),
    "skills": ("can", "licence", "mother tongue", "language test"),
    "personality": ("trait",),
    "opinion": ("value", "creed"),
}  # fmt: skip
_TOPIC_OF = {slot: topic for topic, slots in _OF_SLOTS.items() for slot in slots}
#: Of several topics of one text the first counts: what is said of nothing but one thing comes before what is said of many.
ORDER = (
    "family", "pets", "friends", "name", "birthday", "contact", "wedding", "death", "work", "education", "health", "home", "hometown", "language", "skills",
    "religion", "politics", "personality", "appointment", "travel", "purchase", "money", "transport", "diet", "food", "drink", "smoking", "hobby", "team", "sleep",
    "technology", "clothes", "holidays", "gift", "event", "accident", "legal", "military", "volunteering", "appearance", "fear", "plan", "routine", "answers", "opinion",
    "insurance", "delivery", "things", "furniture", "neighbours", "animals", "lost", "celebrity", "weather", "mood", "problem", "dislike", "like",
)  # fmt: skip
_OTHERS = ORDER[:3]
_MOST_CHARACTERS = 2000  # of a memory; a longer one is about everything


def topic_of(content: str, slots: Iterable[str] = ()) -> str:
    """The topic of a memory, by the slots of its fact where the rules know them, else by its words; "" when none is known."""
    for slot in slots:
        kind = slot.partition(":")[0].removeprefix("former ")
        # What is said of somebody's wife is about the family, whatever it is.
        if topic := _TOPIC_OF.get(kind) or _first(kind.rpartition(" ")[0], _OTHERS):
            return topic
    return _first(content[:_MOST_CHARACTERS], ORDER)


def _first(text: str, order: Iterable[str]) -> str:
    about = {topic_name(topic) for topic in topics(text, terms(text))} if text else ()
    return next((topic for topic in order if topic in about), "")
