"""A made-up memory in two languages, always the same one, and questions about it."""

import random
from datetime import UTC, datetime, timedelta

from octavo import Record, Scope

PEOPLE = (
    "Anna",
    "Boris",
    "Chen Wei",
    "Dalia",
    "Emeka",
    "Farid",
    "Grace",
    "Hiro",
    "小雨",
    "王医生",
    "李老师",
    "阿强",
)
SUBJECTS = {
    "garden": ("tomatoes", "compost", "greenhouse", "watering can", "roses", "slugs"),
    "travel": ("passport", "night train", "hostel", "ferry", "suitcase", "visa"),
    "cooking": ("sourdough", "dumplings", "paprika", "oven", "recipe", "knife"),
    "music": ("cello", "rehearsal", "choir", "sonata", "metronome", "concert"),
    "work": ("deadline", "invoice", "deploy_script.py", "review", "budget", "server42"),
    "health": ("dentist", "migraine", "vaccination", "physiotherapy", "allergy", "glasses"),
    "园艺": ("番茄", "堆肥", "温室", "浇水壶", "玫瑰", "蜗牛"),
    "旅行": ("护照", "夜车", "青年旅舍", "渡轮", "行李箱", "签证"),
    "做饭": ("酸面包", "饺子", "辣椒粉", "烤箱", "菜谱", "菜刀"),
    "音乐": ("大提琴", "排练", "合唱团", "奏鸣曲", "节拍器", "演唱会"),
}
PLACES = (
    "the old harbour",
    "Lisbon",
    "the attic",
    "Room 204",
    "the market",
    "杭州",
    "阁楼",
    "火车站",
    "二楼",
    "海边",
)
ENGLISH = (
    "{who} forgot the {what} in {where}",
    "I promised {who} to bring the {what} on {day}",
    "The {what} cost {number} euros, said {who}",
    "Why does {who} keep talking about {what} and {other}?",
    "We moved the {what} from {where} because of the {other}",
    "{who} bought another {what} 🎉",
    "Remember: {what} first, then {other}",
)
CHINESE = (
    "{who}把{what}忘在{where}了",
    "我答应{who}{day}带上{what}",
    "{who}说{what}花了{number}块钱",
    "为什么{who}总是说起{what}和{other}？",
    "因为{other}，我们把{what}从{where}搬走了",
    "{who}又买了一个{what}🎉",
    "记住：先{what}，再{other}",
)
ASKED = (
    "Where did {who} leave the {what}?",
    "How much did the {what} cost?",
    "what about {what} and {other}",
    "What did I promise {who} for {day}?",
    "{who} {what}",
    "{who}的{what}在哪里？",
    "{what}花了多少钱？",
    "为什么要搬走{what}？因为{other}吗？",
    "{day}要带什么？{who}说了什么？还要{what}吗？",
    "{number}",
)


def _sentence(draw: random.Random, templates: tuple[str, ...], words: tuple[str, ...]) -> str:
    what, other = draw.sample(words, 2)
    day = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=draw.randrange(300))
    spelled = draw.choice(
        (f"{day:%Y-%m-%d}", f"{day.day} {day:%B %Y}", f"{day.year}年{day.month}月{day.day}日")
    )
    return draw.choice(templates).format(
        who=draw.choice(PEOPLE), what=what, other=other, where=draw.choice(PLACES), day=spelled,
        number=draw.randrange(5, 400),
    )  # fmt: skip


def memory(home: Scope, size: int = 600, sessions: int = 20) -> list[Record]:
    """Records of several users and sessions; some say the same, some at the same moment, some weigh more."""
    draw = random.Random(20260302)
    begins = [
        datetime(2025, 1, 6, 9, tzinfo=UTC) + timedelta(days=draw.randrange(300)) for _ in range(sessions)
    ]
    names = list(SUBJECTS)
    records = []
    for n in range(size):
        session = n % sessions
        subject = names[session % len(names)] if draw.random() < 0.7 else draw.choice(names)
        templates = ENGLISH if subject.isascii() else CHINESE
        metadata = {"importance": draw.choice((0.1, 0.9, 8))} if draw.random() < 0.1 else {}
        records.append(
            Record(
                collection=draw.choice(("messages", "messages", "messages", "episodes", "profile")),
                id=f"n{n}",
                kind=draw.choice(("user", "assistant")),
                scope=Scope(tenant=home.tenant, user=f"u{session % 3}", session=f"s{session}"),
                text=_sentence(draw, templates, SUBJECTS[subject]),
                metadata=metadata,
                created_at=begins[session] + timedelta(minutes=draw.choice((1, 7)) * (n // sessions)),
                seq=n,
            )
        )
    return records


def questions(many: int = 100) -> list[str]:
    """Questions in both languages that the memory can say something about."""
    draw = random.Random(19)
    return [_sentence(draw, ASKED, SUBJECTS[draw.choice(list(SUBJECTS))]) for _ in range(many)]
