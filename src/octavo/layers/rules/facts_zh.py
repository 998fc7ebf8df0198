"""What a Chinese clause says of its subject: one of the six kinds of profile facts, by patterns over the lexicon."""

import re
from collections.abc import Callable

from octavo.layers.rules import lexicon_zh as zh
from octavo.layers.rules.facts import NO, YES, Said, denied, plain, polar
from octavo.layers.rules.times import number

_N = zh.NUMBER
_LIST = re.compile(
    r"[、/]|(?<=[\u3400-\u9fffA-Za-z])\s*(?:以及|还有|(?<!温)(?<!平)(?<!总)(?<!饱)和(?![平谐声气睦服解尚])|(?<!参)与)\s*(?=[\u3400-\u9fffA-Za-z])"
)
_VERB_BEFORE = re.compile(
    "^(?:去|喝|吃|看|听|玩|用|做|打|弹|说|讲|写|读|逛|跳|唱|练|养|骑|踢|画|穿|拉|吹|学)(?=.)"
)
_OBJECT_VERBS = re.compile("^(?:喝|吃|看|听|玩|用|做|打|弹|说|讲|写|使用|学|读)(?=..|茶|酒|[A-Za-z])")
_END = re.compile(r"[了啊呢吧呀哦的]+$")


def split_list(value: str) -> list[str]:
    """The items of a list of things; a long item is a sentence and stays whole."""
    items = [_END.sub("", item.strip()) for item in _LIST.split(value) if item and item.strip()]
    return items if items and all(len(item) <= 12 for item in items) else [value]


def _liked(value: str) -> str:
    return plain(_OBJECT_VERBS.sub("", value))


def _many(name: str, category: str, value: str, yes: bool) -> Said:
    items = split_list(_END.sub("", value) or value)
    verb = match[0] if (match := _VERB_BEFORE.match(items[0])) else ""
    # 弹钢琴和吉他: the second is played too, unless it brings a verb of its own.
    full = [item if at == 0 or _VERB_BEFORE.match(item) else verb + item for at, item in enumerate(items)]
    return Said(category, polar(name, map(_liked, full), yes), tuple(full))


def _one(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(category, [{name: plain(match["v"])}])


def _affirmed(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(
        category, [{f"{name}:{plain(match['v'])}": NO if match.groupdict().get("no") else YES}]
    )


def _listed(name: str, category: str) -> "Callable[[re.Match[str]], Said | None]":
    def make(match: "re.Match[str]") -> Said | None:
        if not _END.sub("", match["v"]):
            return None  # 我懂了
        return _many(name, category, match["v"], yes=not match.groupdict().get("no"))

    return make


def _job(match: "re.Match[str]") -> Said | None:
    found, groups = {}, match.groupdict()
    value = groups.get("v") or ""
    if value and groups.get("e") is None and not zh.OCCUPATIONS.search(value):
        return None
    if value:
        found["occupation"] = plain(re.sub(rf"^(?:了|过)?(?:{_N}多?年的?)?", "", value))
    if groups.get("e"):
        found["workplace" if zh.PLACES.search(groups["e"]) else "employer"] = plain(groups["e"])
    return Said("career", [found])


def _trait(match: "re.Match[str]") -> Said:
    word = plain(match["v"])
    yes = not (match.groupdict().get("no") or "").startswith(("不", "没"))
    if match["v"] in zh.ANTONYMS:
        word, yes = zh.ANTONYMS[match["v"]], yes == (match["v"] in zh.SAME_TRAITS)
    return Said("personality", [{f"trait:{word}": YES if yes else NO}])


def _major(match: "re.Match[str]") -> Said:
    """本科 and 硕士 have a subject each: the second does not take the place of the first."""
    level = match["k"] or ""
    return Said("education", [{f"major {level}".strip(): plain(match["v"])}])


def _skill(match: "re.Match[str]") -> Said | None:
    """英语不太好: how well something is done; said without any "how", nothing is said."""
    told = match[0][match.end("v") - match.start() :]
    if not told:
        return None
    return Said(
        "ability", [{f"can:{plain(match['v'])}": NO if re.search("不(?!错)|差|烂|一般", told) else YES}]
    )


def _favourite(match: "re.Match[str]") -> Said:
    return Said("preference", [{f"favourite:{plain(match['k'])}": plain(match["v"])}])


def _from(match: "re.Match[str]") -> Said | None:
    """来自湖南, 是湖南人; 是好人 says of nobody where they come from."""
    if match[0].startswith("是") and (not match[0].endswith("人") or zh.NO_HOME.search(match[0])):
        return None
    return Said("preference", [{"home town": plain(match["v"])}])


def day_of(words: str) -> str:
    """A day as it is compared: 十二月三号 is 12月3日."""
    return plain(
        re.sub("[一二三四五六七八九十]+(?=[月日号])", lambda match: str(number(match[0])), words)
    ).replace("号", "日")


def _whole(name: str, category: str) -> "Callable[[re.Match[str]], Said]":
    return lambda match: Said(category, [{f"{name}:{plain(match[0])}": YES}])


_NO = "(?P<no>不(?:是)?(?:太|怎么|大|很|再)?|从来?不|并不|一点[都也]不|没那么|没(?:有)?)?"
_RULES: tuple[tuple[str, "Callable[[re.Match[str]], Said | None]"], ...] = (
    # education, before career: a 学生 and a 博士 are no jobs
    (r"(?:的)?(?P<k>本科|大学|硕士|研究生|博士|高中|第二)?的?(?:专业|研究方向|主修)(?:是|为|方向是)(?P<v>.+)", _major),
    (r"(?:的)?(?:最高)?(?:学历|学位)(?:是|为)?(?P<v>.+)", _one("degree", "education")),
    (r"(?:的)?母校(?:是|为)(?P<v>.+)", _affirmed("school", "education")),
    (r"(?P<v>.{0,10})(?P<no>没|未)(?:有|能)?毕业$", _affirmed("school", "education")),
    (r"毕业于(?P<v>.+)", _affirmed("school", "education")),
    (rf"(?:是)?(?:{_N}年)?(?:在|从|于)?(?P<v>.{{2,30}}?)(?:系|专业)?毕业(?:的|了|生)?$", _affirmed("school", "education")),
    (rf"(?:是)(?:一[名个位])?(?P<v>.{{0,30}}?{zh.STUDENT}(?:学生|新生)?)$", _one("student", "education")),
    (rf"(?:现在|正)?在?(?:上|读|念)(?P<v>{zh.STUDENT}|本科|研究生|硕士|博士|高中|初中|小学|研|博)(?:了|呢)?$", _one("student", "education")),
    (r"在(?P<v>.{2,30})(?:读书|上学|念书|读研|读博|读本科|上大学|留学|攻读.*|就读.*|读(?:硕士|博士|研究生|大学|.*专业)|学(?:习)?(?:.*专业|计算机|法律|医))$", _one("study", "education")),
    (rf"(?:就读于|考上了?|考入了?|考进了?|保送)(?P<v>.+{zh.SCHOOL}.*)", _one("study", "education")),
    (r"(?:本科|硕士|博士|大学|高中|研究生|初中)(?:都|就|是)*在(?P<v>.{2,20}?)(?:读|上|念)(?:完)?(?:的|了)?$", _affirmed("school", "education")),
    (r"攻读(?P<v>.+)", _one("study", "education")),
    (r"(?:在)?(?P<k>本科|大学|硕士|研究生|博士|高中|留学)(?:期间|时|阶段|的时候)?(?:是)?(?:读|学|念|主修|专业是?)(?:的)?(?:是)?(?P<v>.+)", _major),
    (rf"(?:有|拿到?了?|获得了?|取得了?|读完了?|拥有)(?P<v>.{{0,30}}{zh.DEGREE}(?:学位|学历|文凭|证书)?)$", _affirmed("degree", "education")),
    (r"(?:主修|辅修|(?:读|学|念)的?是|学过|修过)(?P<v>.+)", _one("major", "education")),
    (rf"是(?P<v>.{{0,20}}(?:学士|硕士|博士|本科|大专|{zh.SCHOOL})(?:毕业)?)(?:的)?$", _affirmed("degree", "education")),
    (r"(?P<v>(?:大|研|博|高|初)[一二三四])(?:学生)?(?:了)?$", _one("student", "education")),
    # preferences with a name of their own
    (r"(?:的)?最(?:喜欢|爱|欣赏|讨厌|常用)(?P<k>.{0,12}?)(?:的)(?P<x>.{0,12}?)(?:是|叫)(?P<v>.+)", lambda m: Said("preference", [{f"favourite:{plain(m['k'] + m['x'])}": plain(m["v"])}])),
    (r"(?:的)?(?:兴趣爱好|业余爱好|爱好|兴趣|嗜好)(?:是|包括|有|为)(?P<v>.+)", _listed("like", "preference")),
    (r"对(?P<v>.{1,20}?)(?P<no>不|没)?(?:很|严重|有点)?过敏", _listed("allergy", "preference")),
    (r"(?P<v>(?!对|皮肤|鼻子|眼睛|脸|有|不|没|容易|严重|会|经常|又|季节)[\u3400-\u9fff]{1,6}?)(?:也|都)?(?P<no>不)?过敏(?:的)?$", _listed("allergy", "preference")),
    (r"对(?P<v>.{1,20}?)(?P<no>不|没)?(?:有|很|非常|特别|挺)*(?:什么)?(?:感兴趣|兴趣|上瘾|着迷|痴迷)", _listed("like", "preference")),
    (r"是(?:一[个名位])?(?:资深|铁杆|忠实|狂热|重度)*的?(?P<v>.{1,16}?)(?:的)?(?:粉丝|爱好者|发烧友|迷|控|党|粉|重度用户)$", _listed("like", "preference")),
    (r"(?P<no>不)?(?:是(?:一[个名])?)?(?P<v>素食(?:主义)?者?|吃素|纯素|丁克|单身主义者?|左撇子|乳糖不耐受?|夜猫子|早起的?人|色盲|近视)(?:了|的)?$", _affirmed("is", "preference")),
    (r"(?P<no>不)?(?:是)?(?P<v>单身|已婚|未婚|离异)(?:状态|人士)?(?:了|的)?$", lambda m: Said("preference", [{"not civil status" if m["no"] else "civil status": plain(m["v"])}])),
    # abilities
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?:擅长|精通|熟悉|熟练掌握|熟练使用|掌握|拿手|善于|懂|熟知|熟练)(?:了|使用|运用)?(?P<v>.+)", _listed("can", "ability")),
    (rf"{_NO}会(?:一点点?|一些|点)?(?P<v>(?:{zh.SKILLS}|{zh.LANGUAGES}|[A-Za-z]).*)", _listed("can", "ability")),
    (rf"{_NO}(?:可以|能够|能)(?P<v>(?:用{zh.LANGUAGES}|用.{{1,14}}(?:写|做|画|开发|处理|分析|沟通|交流|搭|剪)|说|讲|写|弹|独立|同时|熟练|流利|看懂|听懂|读懂|唱|画|翻译|编程|开车|游泳|心算).*)", _listed("can", "ability")),
    (rf"(?:的)?(?P<v>{zh.LANGUAGES}|(?!觉得|心情|感觉)[\u3400-\u9fffA-Za-z]{{1,8}}?)(?:水平|能力|说得|讲得|口语|写得|基础|技术|玩得|弹得)?(?:也)?(?:{zh.DEGREES}){{0,3}}(?P<no>不)?(?:太|怎么|很)?(?:流利|熟练|扎实|过硬|精湛|溜$)", _affirmed("can", "ability")),
    (rf"(?:的)?(?P<v>{zh.LANGUAGES}|[\u3400-\u9fffA-Za-z]{{1,6}}?(?=水平|能力|[说讲写玩弹做打唱画]得|口语|技术|基础))(?:水平|能力|[说讲写玩弹做打唱画]得|口语|写作|听力|基础|技术)?(?:也|还)?(?:{zh.DEGREES}){{0,3}}(?:不|差|烂|一般)?(?:太|怎么|是很|很)?(?:好|行|强|可以|不错|一流|出色|过关)?$", _skill),
    (r"(?P<no>没)?(?:有|拿到?了?|考取了?|持有|拥有)(?P<v>.{0,12}(?:驾照|驾驶证|证书|执照|资格证|资格))", _affirmed("licence", "ability")),
    (r"(?:有|拥有|具备)(?:很强的|较强的|良好的|丰富的|出色的|不错的)(?P<v>.{1,16}(?:能力|技能|功底|水平))", _listed("can", "ability")),
    (rf"(?:{zh.LANGUAGES})(?:过了?|考过)?(?P<v>[四六八]级|专[四八])(?:水平)?(?:了)?$", _affirmed("licence", "ability")),
    (r"(?P<no>[看听读写学]不[懂会来])(?P<v>.+)", _listed("can", "ability")),
    (rf"(?P<v>(?!觉得)[\u3400-\u9fffA-Za-z]{{1,8}}?)(?:方面|上)?(?:{zh.DEGREES}){{0,3}}(?P<no>不)?(?:太|怎么)?(?:拿手|在行)$", _affirmed("can", "ability")),
    (r"(?:的)?(?:强项|特长|专长|拿手菜|优势)(?:是|在于)(?P<v>.+)", _listed("can", "ability")),
    (r"(?:的)?母语(?:是|为)(?P<v>.+)", _one("mother tongue", "ability")),
    (rf"(?:{zh.LANGUAGES})?(?:考过|通过|拿到|考了|考到|过)了?(?P<v>N[1-5]|[A-C][12]|.{{0,4}}(?:等级|\d级|[一二三四五六七八九十]级))", _affirmed("licence", "ability")),
    (r"(?:考过|通过|过)了?(?P<v>.{0,8}(?:四级|六级|雅思|托福|专八|司法考试|法考|CPA|注会|一建))", _affirmed("licence", "ability")),
    (r"(?:雅思|托福)(?:考了|是)?(?P<v>\d+(?:\.\d)?)分?", _one("language test", "ability")),
    # career
    (r"(?:的)?(?:职业|工作|岗位|职位|职务|头衔|本职工作|本职|身份|日常工作)(?:内容)?(?:主要)?(?:就)?(?:是|为)(?P<v>.+)", _one("occupation", "career")),
    (r"在(?P<e>.{1,30}?)(?:做|当|担任|任)(?P<v>[^做当任]{1,30})$", _job),
    (rf"在(?P<e>.{{1,30}}?)(?:工作|上班|任职|就职|实习|打工|搬砖|供职|教书|执教|创业)(?:了|过)?(?:{_N}多?年)?(?:了)?$", _job),
    (r"(?:就职于|任职于|供职于|受雇于)(?P<e>.+)", _job),
    (rf"(?:是|做|当|担任|任|成为)(?:了|着|过)?(?:{_N}多?年的?)?(?:一[名位个]|[个名位])?(?P<v>.{{1,40}})", _job),
    (rf"(?:做|干|搞)(?P<v>[^了过]{{2,12}}?)(?:做?了)?{_N}多?年(?:了)?$", _one("work", "career")),
    (r"(?:从事|做的?是|干的?是|搞|是做|是搞|是干|负责|主管|分管|主要做)(?:着|了)?(?P<v>.+?)(?:的|工作|行业)*$", _one("work", "career")),
    (r"(?:做|搞|干|开|跑|卖|写|画|送|拍)(?P<v>[^了过]{1,12})(?:的|这一?行的?|行业的?)$", _one("work", "career")),
    (r"(?:自己)?(?:开|经营|创办|创立|创建)(?:了|着)?(?:一)?(?:家|间|个)?(?P<v>.{0,16}(?:店|公司|工作室|餐厅|餐馆|诊所|事务所|民宿|酒吧|工厂|厂|健身房|补习班|网店|书店|咖啡馆))", _affirmed("business", "career")),
    (r"(?:带|管理|领导|管)(?:着|了)?(?P<v>.{0,16}(?:团队|部门|小组|人))$", _one("leads", "career")),
    (rf"教(?:了|过)?(?P<v>(?:{_N}多?年)?(?:的)?.{{0,6}}(?:书|课|数学|语文|英语|物理|化学|历史|音乐|体育|美术))(?:了)?$", _one("work", "career")),
    (r"(?:还|暂时|目前)?(?P<v>没(?:有)?(?:找到)?(?:正式)?工作|(?:正)?在?找(?:新)?工作)(?:了|呢|中)?$", _one("occupation", "career")),
    (rf"有(?:将近|接近|超过)?(?P<v>{_N}多?年.{{0,16}}?经验)", _one("experience", "career")),
    (rf"(?:干了|做了|工作了?|入行|从业)(?P<v>{_N}多?年)", _one("experience", "career")),
    (r"(?P<v>待业|失业|退休|自由职业|创业|全职在家|找工作|自己当老板)(?:中|了|在家)?$", _one("occupation", "career")),
    (rf"(?:的)?(?:年薪|月薪|工资|薪水|收入)(?:是|大概|约|有)*(?P<v>.*{_N}.*)", _one("salary", "career")),
    (r"(?:的)?(?:公司|单位|雇主)(?:是|叫)(?P<v>.+)", _one("employer", "career")),
    # values
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?:重视|看重|注重|追求|崇尚|信奉|坚信|相信|信仰|尊重|推崇|讲究|奉行|秉持|珍惜|反对|支持)(?P<v>.+)", _listed("value", "value")),
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?:在乎|在意)(?P<v>.+)", _listed("value", "value")),
    (r"(?P<no>不)?信(?:仰)?(?P<v>佛|基督|主|道|伊斯兰|天主).{0,3}$", _affirmed("value", "value")),
    (r"(?:觉得|认为|坚持|主张|始终认为).*(?:重要|应该|应当|必须|意义|价值|第一|原则|底线|首位|值得|关键|不能没有).*", _whole("value", "value")),
    (r"(?:的)?(?:人生)?(?:原则|座右铭|信条|价值观|目标|人生目标|理想|梦想|信念|底线|信仰|准则)(?:就)?是(?P<v>.+)", _one("creed", "value")),
    (r"(?:把|将)(?P<v>.{1,16})(?:放在|看作|视为|当作|摆在).*(?:第一|首|最重|前面|核心).*", _affirmed("value", "value")),
    # personality
    (rf"(?:的)?(?:性格|脾气|个性|为人|性子)(?:上|方面)?(?:是|属于|算是|偏|有)*(?P<no>不)?(?:{zh.DEGREES}){{0,3}}(?P<v>{zh.TRAITS}|.{{1,12}})", _trait),
    (rf"(?!是(?:认真|独立|直接|冷静|理性)的$)(?P<no>不)?(?:是|算是|属于)(?:一)?(?:个|名|位)?(?:{zh.DEGREES}){{0,3}}(?:的)?(?P<v>{zh.TRAITS})(?:型)?(?:的)?(?:人|性格|类型|者)?.{{0,4}}$", _trait),
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?P<v>{zh.TRAITS})(?:的人|型人格|的)?$", _trait),
    (r"(?:有|患有)(?P<v>拖延症|社恐|选择困难症?|强迫症|洁癖|完美主义|好奇心|责任心|主见|耐心)", _trait),
    (rf"(?:{zh.DEGREES}){{0,3}}容易(?P<v>.{{1,8}})$", _affirmed("trait", "personality")),
    # preferences
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?:喜欢上了|喜欢|喜爱|热爱|偏爱|偏好|钟爱|迷恋|沉迷于?|痴迷于?|享受|习惯了?于?|倾向于?|钟情于?|酷爱|迷上了?|爱上了?|宁愿|宁可|爱)(?!的(?!.*是))(?P<v>.+)", _listed("like", "preference")),
    (rf"(?:{zh.DEGREES}){{0,3}}(?P<no>讨厌|厌恶|反感|受不了|(?:害怕|怕)(?!来不及|赶不上|忘|[我他她]|被|不|没|万一|会|是)|恨|不想要|嫌弃|忍受不了|戒了|戒掉了?|戒|不碰)(?P<v>.+)", _listed("like", "preference")),
    (r"(?P<no>不(?:怎么|太|大)?(?:能|会|再|敢|爱|想)?|从来?不|很少|几乎不)(?P<v>(?:吃|喝|抽|看|用|玩|穿|熬|坐|追|碰|喷|戴)(?!了?$).*|化妆.*)", _listed("like", "preference")),
    (rf"(?:{zh.DEGREES}){{0,3}}(?:能|敢)(?P<v>(?:吃|喝|熬夜).*)", _listed("like", "preference")),
    (rf"{_NO}(?:{zh.DEGREES}){{0,3}}(?:想|梦想着?|希望能?)(?P<v>(?:学|去|成为|养|当|做一|开一|买|换|读|考).+)", _listed("wish", "preference")),
    (r"(?:吃|喝)(?P<v>不了.+)", _whole("diet", "preference")),
    # who they are besides
    (r"(?:还)?(?:(?P<no>没有?)|有)(?P<v>孩子|小孩|女朋友|男朋友|女友|男友|对象|兄弟姐妹|宠物|车|房|车子|房子|过敏史|信仰|宗教信仰)了?$", _affirmed("has", "preference")),
    (r"(?P<k>身高|体重)(?P<v>\d.*)", lambda m: Said("preference", [{m["k"]: plain(m["v"])}])),
    (r"(?:从小)?(?:是)?在(?P<v>.{2,12}?)(?:长大|出生)(?:的)?$", _one("home town", "preference")),
    (r"祖籍(?:是|在)?(?P<v>.+)", _one("祖籍", "preference")),
    (r"是(?P<v>[\u3400-\u9fff]{1,4}族)$", lambda m: None if m["v"].endswith(("上班族", "月光族", "家族", "民族", "打工族")) else Said("preference", [{"民族": plain(m["v"])}])),
    (r"是(?:个)?(?P<v>男|女)(?:生|孩子?|性|的|人)$", _one("性别", "preference")),
    (r"属(?P<v>[鼠牛虎兔龙蛇马羊猴鸡狗猪])(?:的)?$", _one("生肖", "preference")),
    (r"是(?P<v>[\u3400-\u9fff]{2}座)(?:的)?$", _one("星座", "preference")),
    (r"是(?P<v>(?:[5-9]0|0[05])后|独生子女?|独生女)$", _affirmed("is", "preference")),
    (r"用(?P<v>[^了过]{1,16}?)(?:写|做|开发|搭|画|管理|记)[^了过]{1,12}$", _affirmed("uses", "preference")),
    (r"(?P<no>从来?没有?|从未)(?P<v>.+过.*)", _affirmed("done", "preference")),
    (r"(?:的)?(?:名字|姓名|全名)(?:是|叫做?)(?P<v>.+)", _one("name", "preference")),
    (r"(?:的)?(?P<k>昵称|网名|英文名|花名|小名|笔名)(?:是|叫做?)(?P<v>.+)", lambda m: Said("preference", [{plain(m["k"]): plain(m["v"])}])),
    (r"(?:叫做?|名叫|姓(?!名|氏))(?P<v>[\u3400-\u9fff·A-Za-z ]{1,16})$", _one("name", "preference")),
    (rf"(?:的)?(?:年龄)?(?:是|有|快|满|已经)*(?:(?P<v>{_N})(?:周)?岁(?:了|半)?|(?<=快)(?P<w>[二三四五六七八九]?十[一二三四五六七八九]?)了)$", lambda m: Said("preference", [{"age": str(number(m["v"] or m["w"]))}])),
    (r"(?:的)?(?:年龄|年纪)(?:是|为)?(?P<v>.+)", _one("age", "preference")),
    (r"(?:长期|常年|定居|居|租房)?(?:(?:住|定居|居住|生活|常住)(?:在|于)|(?:住|定居)(?!院|校|了|宿|一|过|得))(?P<v>.+)", _one("residence", "preference")),
    (r"(?:的)?家(?:就)?(?:住|在)(?:在)?(?P<v>(?!.{1,3}楼$).+)", _one("residence", "preference")),
    (r"(?:的)?(?:老家|家乡|籍贯|故乡)(?:是|在)(?P<v>.+)", _one("home town", "preference")),
    (rf"(?:是)?(?P<v>(?:\d{{2,4}}年)?(?:(?:{_N})月)?(?:(?:{_N})[日号])?)(?:出生|生)(?:的|人)?$", lambda m: Said("preference", [{"birthday": day_of(m["v"])}]) if m["v"] else None),
    (r"(?:来自|出生于|出生在|是)(?P<v>[\u3400-\u9fff]{2,10}?)(?:人|本地人)?$", _from),
    (r"(?:的)?(?:生日|出生日期)(?:是|在)?(?P<v>.+)", lambda m: Said("preference", [{"birthday": day_of(m["v"])}])),
    (r"(?:的)?(?P<k>电话|手机号?|邮箱|时区|微信号?|地址|身高|体重|血型|星座|生肖|国籍|QQ|GitHub|车牌号?|座驾|电脑|手机|宠物)(?:是|为|叫|有)(?P<v>.+)", lambda m: Said("preference", [{"手机号" if m["k"][:2] in ("电话", "手机") and re.search(r"\d{7}", m["v"]) else plain(m["k"]): plain(m["v"])}])),
    (rf"(?P<no>没)?(?:家里|家中)?(?:养|有)(?:了|着|过)?(?P<v>{_N}[个只条位头匹](?:[\u3400-\u9fff]{{0,6}})(?:孩子|儿子|女儿|娃|猫|狗|鱼|鸟|兔子|仓鼠|宠物|哥哥|姐姐|弟弟|妹妹|房|车|乌龟|柯基|金毛|布偶)[\u3400-\u9fff]{{0,8}})$", _affirmed("has", "preference")),
    (r"(?:家里|家中)(?:养|有)(?:了|着)?(?P<v>.+)", _affirmed("has", "preference")),
    (r"(?P<no>没)?(?:有|得了?|患有?|确诊)(?P<v>.{0,6}(?:糖尿病|高血压|哮喘|过敏|鼻炎|胃病|抑郁症|乳糖不耐受?|近视|心脏病|关节炎|偏头痛))", _affirmed("health", "preference")),
)  # fmt: skip
RULES = tuple((re.compile(pattern), make) for pattern, make in _RULES)


#: 我喜欢这个回答, 我相信你: said of what is at hand, which no memory can name.
_POINTING = re.compile(
    "你|您|它|这(?!几年|些年|两年|一?年|个月|周|个星期|段时间|一?辈子|一生|方面)|那(?:个|种|样|些|里|边|么|家|位|款|次|件|天|$)|(?:喜欢|爱|相信|支持|讨厌|恨)[他她](?!的)"
)
_NO_MORE = re.compile("不(?:再|是)?(?P<was>(?:住|定居|在|是|做|当|担任|叫|姓)[^不]+?)了?")
_IN_DEALING = re.compile(
    "^(?:做事|做人|待人|对人|处事|生活中|工作上|工作中|平日里|对待工作)(?:方面|上|时)?(?=.)"
)


def profile_facts(said: str) -> Said | None:
    """What the words after a subject say that lasts; None when they say nothing of the kind."""
    said = _IN_DEALING.sub("", said)
    if _POINTING.search(said):
        return None
    if (match := _NO_MORE.fullmatch(said)) and (was := profile_facts(match["was"])) is not None:
        return denied(was)
    for pattern, make in RULES:
        if (match := pattern.match(said)) and (found := make(match)) is not None:
            return found
    return None


def regardless_of_subject(clause: str, owner: str) -> Said | None:
    """What is said of the owner though something else is the subject: 对我来说家人最重要."""
    if re.search(
        rf"(?:对(?:于)?{owner}(?:来说|而言)|在{owner}(?:看来|心里|眼里)).*(?:重要|第一|首位|关键|意义|值得|大于|胜过)",
        clause,
    ):
        return Said("value", [{f"value:{plain(re.sub('我|用户|他|她', '', clause))}": YES}])
    if match := re.match(
        rf"(?P<v>.{{1,16}})(?:一直)?是{owner}的?(?:做人的|做事的|人生的?|最看重的|坚持的|一直以来的)*(?:原则|底线|信条|追求|座右铭|信念|信仰|最看重的.*)$",
        clause,
    ):
        return Said("value", [{f"value:{plain(match['v'])}": YES}])
    if match := re.match(rf"(?P<v>.{{1,16}})(?:一直)?是{owner}最(?:喜欢|爱)的(?P<k>.{{1,10}})$", clause):
        return _favourite(match)
    return None
