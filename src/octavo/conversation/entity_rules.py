"""Who and what a text speaks about, found by rules: names, places, organisations and titles, in Chinese and English.

Rules miss some names and take a few words for names; a language model does better. They cost nothing and need none.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Family names that are common and seldom begin an ordinary word, and the two-character ones.
_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙朱马胡郭林何高梁郑罗宋谢唐韩曹许邓萧冯曾程蔡彭潘袁董余苏叶吕魏蒋田杜丁沈姜范江傅钟卢汪戴崔任陆廖姚"
    "金邱夏谭韦贾邹石熊孟秦阎薛侯雷白龙郝孔邵史毛万顾赖武康贺严尹钱施牛洪龚陶翁樊柯莫殷颜倪葛邢骆聂黎易庞岳齐向俞甘辛"
    "張劉陳楊黃趙吳孫馬鄭羅謝韓許鄧蕭馮蘇葉呂蔣鐘盧陸譚賈鄒閻龍顧賴賀嚴錢龔顏駱聶龐齊"
)
_COMPOUND_SURNAMES = [
    "欧阳",
    "司马",
    "上官",
    "诸葛",
    "东方",
    "皇甫",
    "尉迟",
    "公孙",
    "慕容",
    "令狐",
    "司徒",
    "歐陽",
    "司馬",
]
_TITLES = (
    "先生", "女士", "小姐", "太太", "老师", "老師", "医生", "醫生", "大夫", "教授", "经理", "总监", "主任", "博士", "律师", "师傅",
    "同学", "阿姨", "叔叔", "校长", "院长", "工程师", "总",
)  # fmt: skip

# Characters that stand before or after a name and hardly ever in one: particles, pronouns, prepositions, auxiliaries.
_BOUNDS = frozenset(
    "我你您他她它们的地得了着过吗呢吧啊呀嘛哦是在和与跟同及或给对把被让叫请问找从到向往去来也都还又就才很太更最不没有会能可要想说讲谈"
    "这那哪谁什怎么为因所以但而且如果虽然并已经将曾刚正再只每个些位名今昨明后前当时于由住做写用买卖吃喝看听见爱喜负担任搬出加认觉"
    "考准申需应打养教读学毕离进回开告陪送带等帮約约拿提决定推荐養學說來們個這為與會沒過還對給讓請問從"
)
_CAPITALS = frozenset(("首都", "成都", "京都", "国都"))  # 都 is "all" everywhere else
# What a name may hold although it bounds others (王学明, 张爱玲, 李开复), and what it may end with (李明, 王正).
_WITHIN_NAMES = frozenset("明正爱开学进定喜养")
_ENDS_NAMES = frozenset("明正")

# Ordinary words that begin with a family name.
_NOT_NAMES = _words(
    "高兴 高中 高级 高效 高手 高度 高速 高铁 高考 高端 高峰 高温 方便 方法 方案 方向 方面 方式 常常 常见 常用 常规 黄金 黄色 黄油 黄昏 白天 白色 白菜 白酒 白领 "
    "马上 马路 马拉松 马桶 王国 王子 王者 周末 周年 周围 周期 周边 周一 周二 周三 周四 周五 周六 周日 周天 许多 许可 金融 金额 金色 金牌 金属 石头 石油 田野 田园 余额 余地 "
    "余下 何时 何处 何必 何况 程序 程序员 程度 任务 任何 任意 任职 向来 江湖 江边 林业 林子 万一 万里 万分 温度 谢谢 谢绝 严重 严格 毛病 毛巾 毛衣 雷达 雷雨 龙虾 龙头 曾经 "
    "陈述 陈列 陈旧 杨树 杨梅 钱包 钱币 孙子 孙女 胡说 胡子 胡同 胡椒 胡萝卜 段落 段时间 夏天 夏季 夏日 夏令营 常温 武器 武术 武侠 康复 严肃 史上 史诗 孔子 孟子 白色 苏打 "
    "叶子 叶片 丁点 姜汤 范围 范例 江南 唐代 唐诗 宋代 宋词 汉代 秦朝 唐朝 宋朝 元朝 明朝 清朝 魏晋 梁子 罗列 徐徐 朱红 易于 易用 易懂 向上 向下 向前 向量 甘甜 辛苦 辛勤 辛辣 "
    "齐全 齐心 施工 施行 牛奶 牛肉 牛排 牛油果 洪水 陶瓷 陶艺 莫非 莫名 颜色 颜值 易经 石榴 金鱼 金枪鱼 黄瓜 黄豆 黄山 马甲 马虎 马克杯 张开 张力 张口 刘海 李子 吴语 "
    "周報 周报 周刊 周会 周例会 周计划 万能 万象 万岁 白白 白板 白纸 方块 方形 方程 方言 方針 方针 高大 高低 高价 高原 高楼 高山 高层 高质量 常识 常年 常态 余生 余热 余量 "
    "钟头 钟表 汪汪 林区 林地 田地 田径 石器 石板 龙卷风 龙井 龙舟 段子 雷声 雷电 白云 白雪 白饭 白米 白糖 江水 江河 江西 江苏 黄河 金山 石家庄 秦皇岛 武汉 万达 马来西亚 "
    "罗马 韩国 贺卡 贺岁 顾客 顾问 顾虑 顾及 毛孩 毛利 赖床 严禁 严谨 严厉 施展 施加 钱财 康熙 蔡司 杜绝 沈阳 叶酸 苏州 苏醒 程控 曹操 彭湃 董事 董事长 董事会 袁大头 邓小平"
)
# Ordinary words that begin with 小 or 老, or end like a place.
_NOT_NICKNAMES = _words(
    "小时 小心 小说 小吃 小区 小学 小组 小孩 小狗 小猫 小鸟 小事 小于 小型 小朋 小姐 小伙 小数 小米 小麦 小费 小票 小程 小提 小队 小店 小镇 小路 小河 小山 小雨 小雪 小菜 小便 小声 小众 小看 小气 "
    "小城 小屋 小车 小鱼 小贝 小本 小额 小批 小样 小名 小腿 小熊 小鸡 小猪 小兔 小偷 小女 小男 小儿 小弟 小妹 小哥 小生 小睡 小结 小节 小规 小模 小幅 小部 小句 老师 老板 老人 老家 老虎 老鼠 老是 老公 老婆 "
    "老年 老爸 老妈 老爷 老奶 老乡 老大 老二 老友 老牌 老实 老早 老旧 老外 老百 老客 老员 老房 老城 老街 老化 老同 老朋 老本 老子 老少 老套 老式 老頭 老头 老太 老伴 老一 老挝 老一辈"
)
_PLACES = tuple(sorted(_words(
    "北京 上海 天津 重庆 广州 深圳 杭州 南京 苏州 成都 武汉 西安 长沙 郑州 青岛 厦门 福州 济南 合肥 昆明 贵阳 南宁 海口 三亚 太原 沈阳 大连 长春 哈尔滨 南昌 宁波 无锡 佛山 东莞 珠海 "
    "石家庄 呼和浩特 乌鲁木齐 拉萨 兰州 西宁 银川 桂林 丽江 大理 洛阳 敦煌 香港 澳门 台北 台湾 高雄 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 广西 海南 四川 贵州 云南 "
    "陕西 甘肃 青海 西藏 宁夏 新疆 内蒙古 中国 美国 英国 法国 德国 日本 韩国 俄罗斯 印度 意大利 西班牙 加拿大 澳大利亚 新西兰 巴西 新加坡 马来西亚 泰国 越南 瑞士 瑞典 荷兰 埃及 欧洲 亚洲 非洲 纽约 伦敦 巴黎 东京 大阪 京都 首尔 柏林 罗马 莫斯科 "
    "悉尼 硅谷 长城 故宫 西湖 黄山 泰山 长江 黄河 清华 北大 复旦 华为 腾讯 阿里巴巴 百度 字节跳动 小米 京东 美团 网易 滴滴 拼多多 比亚迪 微信 微博 抖音 支付宝 淘宝 知乎 飞书 钉钉 谷歌 苹果公司 微软 特斯拉 亚马逊 英伟达"
), key=len, reverse=True))  # fmt: skip
_SUFFIXES = (
    "大学", "学院", "公司", "集团", "银行", "医院", "研究院", "研究所", "博物馆", "图书馆", "机场", "火车站", "中学", "小学", "实验室",
    "基金会", "出版社", "科技园", "省", "市", "县", "区", "大學", "學院", "醫院", "銀行", "集團",
)  # fmt: skip
# Begin a phrase that ends like a place and names none: 这家公司, 一线城市, 附近医院.
_GENERIC = (
    "这", "那", "哪", "一", "两", "几", "每", "某", "该", "本", "贵", "各", "我", "你", "他", "她", "家", "所", "附近", "另", "其",
    "当地", "私", "国有", "上市", "互联网", "公立", "国际机",
)  # fmt: skip
_GENERIC_ENDS = ("城市", "超市", "地区", "小区", "社区", "区区", "街区", "园区", "股市", "上市", "夜市", "菜市", "门市", "時區", "时区", "山区", "郊区", "景区", "市区", "分区", "都市", "误区", "专区", "体验区", "美食区")  # fmt: skip

# Capitalised English words that are no names, wherever they stand.
_NEVER = _words(
    "i i'm i'd i'll i've ok okay yeah yep yup nope alright bye goodbye cool love hi hello hey dear thanks thank please yes no sure great good well oh wow ai human assistant user system "
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october "
    "november december mr mrs ms dr prof sir madam am pm tv id faq fyi asap btw eta etc usd eur cny mon tue wed thu fri sat sun "
    "today tomorrow yesterday tonight morning afternoon evening christmas english internet god"
)
# Words that begin sentences; capitals at the beginning of a sentence tell nothing about them.
_OPENERS = _words(
    "a an the this that these those there here it its he she they we you my your his her our their what when where who whom whose why "
    "how which if then so but and or nor yet for from in on at by with to of as is are was were be been do does did have has had can "
    "could will would shall should may might must not never always also just only even still maybe perhaps however moreover "
    "during meanwhile later now after before while since until although though because let let's next first second third finally once "
    "remember note last some many most all any each every both another other one two three four five everything nothing someone "
    "something somebody nobody everyone anyone sorry congratulations welcome sounds glad happy nice actually really recently usually "
    "dinner lunch breakfast coffee tea food water weather time work life school home money music summer winter spring autumn"
)
# After a single capitalised word at the beginning of a sentence, these make it a name: they say what one somebody does.
_DOES = _words(
    "is was has had will lives lived works worked likes liked loves loved wants wanted said says told asked thinks thought knows knew "
    "moved joined bought made went goes came comes plays played runs ran owns owned needs needed got gets gave gives met wrote writes "
    "teaches taught studies studied hates hated prefers preferred called calls left started and can should would could might "
    "released acquired announced launched"
)
# What may stand between two words of one name, longer ones first.
_JOINS = [
    "of the",
    "of",
    "and the",
    "de la",
    "de",
    "del",
    "van der",
    "van",
    "von",
    "bin",
    "la",
    "le",
    "&",
    "for",
]

MOST_CHARACTERS = 20_000  # of one text; names in what follows are not looked for
_Found = tuple[int, int, str]  # where it begins and ends, and the name

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_RUN = re.compile(rf"[{_HAN}·]+")
_TITLE = re.compile(r"《([^《》\n]{1,40})》")
_CALLED = re.compile(
    rf"(?:名字叫做|名字叫|名字是|名叫|叫做|我叫|(?<=[{_HAN}])叫|昵称是|姓名[:：]\s*)([{_HAN}·]{{1,8}}|[A-Z][\w\-]*)"
)
_PLACE = re.compile("|".join(map(re.escape, _PLACES)))
_ORGANISED = re.compile("|".join(sorted(map(re.escape, _SUFFIXES), key=len, reverse=True)))
_GIVEN = rf"(?:(?![{''.join(sorted(_BOUNDS - _WITHIN_NAMES))}])[{_HAN}])"
_TITLED = re.compile(rf"[{''.join(sorted(_SURNAMES))}]{_GIVEN}{{0,2}}?(?:{'|'.join(_TITLES)})")
_NICKNAME = re.compile(rf"(?:小|老|阿)[{_HAN}]")
_SURNAME = re.compile(rf"{'|'.join(_COMPOUND_SURNAMES)}|[{''.join(sorted(_SURNAMES))}]")
_RELATIONS = re.compile(
    "(?:同事|朋友|同学|室友|邻居|老板|经理|妻子|丈夫|太太|先生|女儿|儿子|妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|客户|导师|男友|女友|闺蜜|助手|律师|医生|老师)$"
)

_ORDINARY = tuple(_NOT_NAMES)

_SENTENCE = re.compile(r"(?:(?<=[.!?。！？；])|(?<=\n))\s*")
_CAPITAL = (
    rf"(?<![A-Za-z0-9_@/.\-])(?:[a-z]{{1,2}})?[A-Z][A-Za-z0-9À-ɏ]*(?:['’\-][A-Za-zÀ-ɏ0-9]+)*(?![^\W{_HAN}])"
)
_INITIAL = r"(?<![A-Za-z0-9])[A-Z]\."
_PHRASE = re.compile(
    rf"{_CAPITAL}(?:(?:(?<=\bDr)\.[ ]+|(?<=\bM[rs])\.[ ]+|(?<=\bMrs)\.[ ]+|[ ]+|[ ]+(?:{'|'.join(map(re.escape, _JOINS))})[ ]+)(?:{_INITIAL}[ ]+)*{_CAPITAL}|[ ]+\d+(?![\w.,:]))*"
)
_MIXED = re.compile(r"[A-Z].*[A-Z]|[a-z].*[A-Z]|\d")
_POSSESSIVE = re.compile(r"['’]s$")
_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:m|d|ll|ve|re))$", re.IGNORECASE)


def find_entities(text: str, limit: int = 20, known: Iterable[str] = ()) -> list[str]:
    """The names a text mentions, each once, in the order of their first mention; at most `limit` of them.

    A name that is `known` already is found wherever it stands by itself.
    """
    text = text[:MOST_CHARACTERS]
    found: list[_Found] = []
    taken = bytearray(len(text))
    # Sure rules first: what they take, a less sure one does not take apart.
    rules = (_titles, _called, _organisations, _people, _places, _english)
    for begin, end, name in chain(_again(text, known), *(rule(text) for rule in rules)):
        if not any(taken[begin:end]):
            taken[begin:end] = b"\1" * (end - begin)
            found.append((begin, end, name))
    return list(dict.fromkeys(name for _, _, name in sorted(found)))[:limit]


def _again(text: str, known: Iterable[str]) -> Iterator[_Found]:
    for name in sorted((name for name in known if name in text), key=len, reverse=True):
        for match in re.finditer(re.escape(name), text):
            begin, end = match.span()
            # 李明 is not who 李明杰 is, nor Ann who Anna is.
            if not (begin and _goes_on(text[begin - 1], name[0])) and (
                end == len(text) or not _goes_on(text[end], name[-1])
            ):
                yield begin, end, name


def _goes_on(beside: str, edge: str) -> bool:
    """Whether what stands beside the edge of a name may belong to the same name."""
    if _RUN.match(edge):
        return _RUN.match(beside) is not None and beside not in _BOUNDS
    return beside.isascii() and beside.isalnum()


def _titles(text: str) -> Iterator[_Found]:
    for match in _TITLE.finditer(text):
        if name := match.group(1).strip():
            yield match.start(), match.end(), name


def _called(text: str) -> Iterator[_Found]:
    """What somebody or something is called, in so many words: 我叫…, 名叫…, 它叫…."""
    for match in _CALLED.finditer(text):
        given = match.group(1)
        if given[0].isascii():
            yield *match.span(1), given
            continue
        name = _until_bound(given)
        # 叫 is also to shout, to order and to ask for: what follows is a name only when it ends like one.
        if 2 <= len(name) <= 4 and name not in _NOT_NAMES and (given == name or given[len(name)] in _BOUNDS):
            yield match.start(1), match.start(1) + len(name), name


def _until_bound(given: str) -> str:
    for at, character in enumerate(given):
        if character in _BOUNDS and not (at and character in _WITHIN_NAMES):
            return given[:at]
    return given


def _organisations(text: str) -> Iterator[_Found]:
    for run in _RUN.finditer(text):
        begin = run.start()
        for match in _ORGANISED.finditer(text, run.start(), run.end()):
            if (
                match.end() < run.end()
                and len(match.group()) == 1
                and text[match.end()] in "长委域场内里别分间"
            ):
                continue  # 市长, 区域, 市场: the suffix belongs to the next word
            start = max(begin, match.start() - 10)
            for at in range(match.start() - 1, start - 1, -1):
                if text[at] in _BOUNDS and text[at] != "学" and text[at - 1 : at + 1] not in _CAPITALS:
                    start = at + 1
                    break
            name = text[start : match.end()]
            if (
                len(name) - len(match.group()) >= 2
                and not name.startswith(_GENERIC)
                and not name.endswith(_GENERIC_ENDS)
            ):
                yield start, match.end(), name
                begin = match.end()


def _people(text: str) -> Iterator[_Found]:
    for match in _TITLED.finditer(text):
        if _begins(text, match.start()) and match.group() not in _NOT_NAMES:
            yield *match.span(), match.group()
    named: list[tuple[int, str]] = []
    for run in _RUN.finditer(text):
        at = run.start()
        while at < run.end():
            if (name := _person(text, at, run.end())) is not None:
                named.append((at, name))
                at += len(name)
            else:
                at += 1
    names = {name for _, name in named}
    for at, name in named:
        # Where 张伟 is named elsewhere, 张伟家 is where he lives and not somebody else.
        known = name[:-1] if name[:-1] in names else name
        yield at, at + len(known), known


def _person(text: str, at: int, end: int) -> str | None:
    """The name of a person that begins here, if one does."""
    if not _begins(text, at):
        return None
    if _NICKNAME.match(text, at, end) and _ends(text, at + 2, end):
        name = text[at : at + 2]
        return None if name in _NOT_NICKNAMES or name[1] in _BOUNDS - _WITHIN_NAMES else name
    family = _SURNAME.match(text, at, end)
    if family is None:
        return None
    for length in (2, 1):
        last = family.end() + length
        given = text[family.end() : last]
        if last > end or given[-1] in _BOUNDS - _ENDS_NAMES or given[0] in _BOUNDS - _WITHIN_NAMES:
            continue
        if "·" in given or text.startswith(_ORDINARY, at):
            return None
        if _ends(text, last, end):
            return text[at:last]
    return None


def _begins(text: str, at: int) -> bool:
    """Whether a Chinese name may begin here: after a mark, a word that bounds names, or one that says who it is."""
    if at == 0 or not _RUN.match(text[at - 1]):
        return True
    return text[at - 1] in _BOUNDS or _RELATIONS.search(text[max(0, at - 4) : at]) is not None


def _ends(text: str, at: int, end: int) -> bool:
    return at >= end or text[at] in _BOUNDS


def _places(text: str) -> Iterator[_Found]:
    for match in _PLACE.finditer(text):
        yield *match.span(), match.group()


def _english(text: str) -> Iterator[_Found]:
    begins = {match.end() for match in _SENTENCE.finditer(text)} | {0, len(text) - len(text.lstrip())}
    alone: list[tuple[int, int, str]] = []
    inside: set[str] = set()
    for match in _PHRASE.finditer(text):
        begin, name = _trimmed(match.start(), match.group())
        if len(name) < 2 or not any(map(str.isalpha, name)):  # of "May 2023" only the year is left
            continue
        if begin in begins and " " not in name and not _MIXED.search(name):
            alone.append((begin, begin + len(name), name))
            continue
        inside.add(name)
        yield begin, begin + len(name), name
    for begin, end, name in alone:
        # A capital at the beginning of a sentence says nothing: something else must.
        if name in inside or (not name.endswith("ing") and _does(text[end : end + 40])):
            yield begin, end, name


def _trimmed(begin: int, phrase: str) -> tuple[int, str]:
    """The phrase without words that are no part of a name, and where it begins now."""
    while phrase:
        first, _, rest = phrase.partition(" ")
        plain = _POSSESSIVE.sub("", first).rstrip(".").casefold()
        # "The" and "My" begin a sentence or a phrase; a name that has one is as well known without it.
        if plain not in _NEVER and plain not in _OPENERS and not _CONTRACTED.search(first):
            break
        begin += len(phrase) - len(rest.lstrip()) if rest else 0
        phrase = rest.lstrip()
        for join in _JOINS:
            if phrase.startswith(f"{join} "):
                begin += len(join) + 1
                phrase = phrase[len(join) + 1 :]
    words = phrase.split(" ")
    while words and (words[-1].casefold() in _NEVER or words[-1] in _JOINS):
        words.pop()
    return begin, _POSSESSIVE.sub("", " ".join(words)).rstrip(".") if words else ""


def _does(after: str) -> bool:
    if after.startswith(("'s", "’s", ",")):
        return not after.startswith(",") or bool(re.match(r", (?:my|our|his|her|the|a|an|who)\b", after))
    following = re.match(r"[ ]+([a-z]+)", after)
    return following is not None and following.group(1) in _DOES
