"""Sentences as users of agents write them, and the facts each holds: written before the rules, and not changed for them.

One border was drawn anew later: what is said of the user's own family, friends, pets and things is a fact.

A fact is named by its category; a category belongs to one layer. "" is no fact at all. How the borders were drawn:

* What is said of the user's own people, pets and things is a `preference`, and what happened to them an event; what is said
  of anybody else is no fact.
* Name, age, home, family and health have no category of their own among the twelve: they are `preference`.
* A plan (打算, plan to) is a decision; something fixed for a time is named by what will be done.
* A lasting wish about answers ("always answer in Chinese") is a preference; a wish for now is a command, so nothing.
* Things liked or mastered that stand in a list are one fact each.
"""

from octavo.layers.values import CATEGORIES, Layer

LAYER_OF: dict[str, Layer] = {category: layer for layer, names in CATEGORIES.items() for category in names}


def expected(categories: str) -> list[tuple[Layer, str]]:
    """The (layer, category) of each fact, in the order of the text."""
    return [(LAYER_OF[category], category) for category in categories.split()]


CHINESE: tuple[tuple[str, str], ...] = (
    # career
    ("我是一名软件工程师", "career"),
    ("我在字节跳动做产品经理", "career"),
    ("用户的职业是律师", "career"),
    ("我现在在一家创业公司当前端负责人", "career"),
    ("我做了八年护士", "career"),
    ("我自己开了一家咖啡店，平时自己烘豆子", "career action"),
    ("我去年从腾讯离职了，现在是自由职业者", "event career"),
    # education
    ("我毕业于清华大学计算机系", "education"),
    ("我是浙江大学的研二学生", "education"),
    ("我的专业是应用数学", "education"),
    ("她有心理学硕士学位", "education"),
    ("我本科读的是英语文学", "education"),
    ("用户正在复旦大学攻读博士", "education"),
    # preference
    ("我喜欢喝手冲咖啡", "preference"),
    ("我不吃香菜", "preference"),
    ("我最喜欢的颜色是蓝色", "preference"),
    ("比起微信，我更喜欢用邮件沟通", "preference"),
    ("我对花生过敏", "preference"),
    ("我是素食主义者", "preference"),
    ("以后请都用中文回答我", "preference"),
    ("我讨厌加班", "preference"),
    ("平时爱看科幻电影、听爵士乐", "preference preference"),
    ("我住在上海浦东", "preference"),
    ("我叫李明，今年二十八岁", "preference preference"),
    ("我家里养了两只猫", "preference"),
    ("记住，我习惯用深色主题", "preference"),
    # ability
    ("我擅长数据分析", "ability"),
    ("我会弹钢琴和吉他", "ability ability"),
    ("我的英语很流利", "ability"),
    ("用户精通Python和Go", "ability ability"),
    ("我不会游泳", "ability"),
    ("我能用日语跟客户沟通", "ability"),
    ("我有C1驾照，开车很熟练", "ability ability"),
    # personality
    ("我性格比较内向", "personality"),
    ("他是个很乐观的人", "personality"),
    ("我这个人有点急躁，容易紧张", "personality personality"),
    ("同事都说我很细心", "personality"),
    ("我不太爱说话，比较慢热", "personality personality"),
    # value
    ("我很重视诚信", "value"),
    ("对我来说，家人比工作更重要", "value"),
    ("我相信努力会有回报", "value"),
    ("我追求极致的用户体验", "value"),
    ("我觉得做人最重要的是善良", "value"),
    # meeting
    ("我今天下午参加了技术分享会", "meeting"),
    ("明天上午十点我要跟客户开会", "meeting"),
    ("上周三我们开了项目复盘会", "meeting"),
    ("我下周一有个面试", "meeting"),
    # conversation
    ("我昨天和老板讨论了加薪的事", "conversation"),
    ("刚才跟妈妈打了一个小时电话", "conversation"),
    ("我跟小王聊了聊新项目的预算", "conversation"),
    ("用户今天向我咨询了退税流程", "conversation"),
    # action
    ("我刚提交了代码", "action"),
    ("昨晚我修复了登录页面的bug", "action"),
    ("我3月5日买了一台新的MacBook", "action"),
    ("周末我去爬了香山", "action"),
    ("我明天要飞去北京出差", "action"),
    ("用户上传了季度报表", "action"),
    # decision
    ("我决定使用新的技术栈", "decision"),
    ("我打算下个月开始学日语", "decision"),
    ("我们最后选择了PostgreSQL作为主数据库", "decision"),
    ("考虑再三，我放弃了去美国读研", "decision"),
    # event
    ("我上周参加了公司年会", "event"),
    ("我妹妹昨天结婚了", "event"),
    ("我们上个月搬到了杭州", "event"),
    ("我今天升职了，特别开心", "event other"),
    ("我昨天去看了周杰伦的演唱会", "event"),
    # other
    ("我今天有点累", "other"),
    ("昨天晚上家里停电了", "other"),
    ("我这两天一直失眠", "other"),
    # no fact of the user's
    ("我妈妈是医生", "preference"),
    ("他说他的同事会Python", ""),
    ("我朋友小李在谷歌工作", "preference"),
    ("我老板喜欢喝茶", "preference"),
    ("你好，在吗？", ""),
    ("北京今天天气怎么样", ""),
    ("帮我写一个快速排序", ""),
    ("如果我是医生，我会很忙", ""),
    ("你能推荐几本书吗", ""),
    ("要是明天下雨我们就不去了", ""),
    ("谢谢你的帮助！", ""),
    ("好的，明白了", ""),
    ("我喜欢什么颜色？", ""),
    # mixed
    (
        "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。",
        "career education meeting",
    ),
    ("他是一名软件工程师，毕业于北京大学", "career education"),
    ("我是老师，我先生是警察", "career preference"),
    ("我姐姐是护士，我是会计", "preference career"),
    ("我在深圳工作，周末喜欢跑步，昨天跑了半马", "career preference action"),
    ("我大学学的是法律，但现在做的是用户研究，性格偏外向", "education career personality"),
    ("你好，我叫王芳，能帮我看看这段代码吗？", "preference"),
    ("我今天和导师讨论了论文，决定换一个题目", "conversation decision"),
)

ENGLISH: tuple[tuple[str, str], ...] = (
    # career
    ("I'm a software engineer", "career"),
    ("I work at Google as a product manager", "career"),
    ("The user is a freelance photographer", "career"),
    ("I've been a nurse for ten years", "career"),
    ("I run a small bakery in Leeds", "career"),
    ("I lead the payments team at a fintech startup", "career"),
    ("My job is mostly data engineering", "career"),
    ("I'm currently between jobs", "career"),
    # education
    ("I graduated from MIT in 2015", "education"),
    ("I have a PhD in molecular biology", "education"),
    ("I studied history at the University of Edinburgh", "education"),
    ("I'm a second-year law student", "education"),
    ("My major was economics", "education"),
    ("I went to college in Ohio", "education"),
    # preference
    ("I love hiking in the mountains", "preference"),
    ("I don't eat meat", "preference"),
    ("My favorite color is green", "preference"),
    ("I prefer tabs over spaces", "preference"),
    ("I'm allergic to peanuts", "preference"),
    ("I can't stand loud music", "preference"),
    ("Please always answer me in British English", "preference"),
    ("I live in Berlin with my two cats", "preference preference"),
    ("My name is Priya and I'm 34 years old", "preference preference"),
    ("I'm vegan", "preference"),
    ("Remember that I like short answers", "preference"),
    ("I'd rather use email than Slack", "preference"),
    ("I'm a big fan of jazz", "preference"),
    ("I enjoy reading, cooking and long walks", "preference preference preference"),
    # ability
    ("I'm good at public speaking", "ability"),
    ("I speak French and German", "ability ability"),
    ("I can play the violin", "ability"),
    ("The user is fluent in Mandarin", "ability"),
    ("I don't know how to swim", "ability"),
    ("I have a lot of experience with Kubernetes", "ability"),
    ("I know Rust pretty well", "ability"),
    # personality
    ("I'm quite introverted", "personality"),
    ("I'm a very patient person", "personality"),
    ("I tend to overthink everything", "personality"),
    ("My friends say I'm stubborn", "personality"),
    ("I get nervous easily around strangers", "personality"),
    # value
    ("I value honesty above everything", "value"),
    ("Family comes first for me", "value"),
    ("I believe in lifelong learning", "value"),
    ("Work-life balance is really important to me", "value"),
    ("I care a lot about the environment", "value"),
    # meeting
    ("I had a meeting with the design team this morning", "meeting"),
    ("Yesterday I attended a workshop on vector databases", "meeting"),
    ("I have a job interview next Monday", "meeting"),
    ("We held our sprint retro on Friday", "meeting"),
    # conversation
    ("I talked to my boss about a raise yesterday", "conversation"),
    ("I discussed the roadmap with Anna last week", "conversation"),
    ("I called my landlord about the leak", "conversation"),
    ("The user asked me about visa requirements today", "conversation"),
    # action
    ("I pushed the fix to production at 3 pm", "action"),
    ("I bought a new laptop on March 5", "action"),
    ("I just finished the quarterly report", "action"),
    ("I'm flying to Tokyo tomorrow", "action"),
    ("Last weekend I painted the living room", "action"),
    ("The user uploaded three invoices", "action"),
    # decision
    ("I decided to switch to Postgres", "decision"),
    ("We chose React for the new frontend", "decision"),
    ("I'm planning to learn Spanish this year", "decision"),
    ("I've made up my mind to quit smoking", "decision"),
    # event
    ("I went to my cousin's wedding last Saturday", "event"),
    ("My daughter was born on 2025-03-05", "event"),
    ("I got promoted last month", "event"),
    ("We moved to Lisbon in May", "event"),
    ("I saw Coldplay in concert last night", "event"),
    # other
    ("I'm feeling really tired today", "other"),
    ("I had a terrible headache yesterday", "other"),
    ("The power went out at our place last night", "other"),
    # no fact of the user's
    ("My mother is a doctor", "preference"),
    ("He said his colleague knows Python", ""),
    ("My friend Tom works at Amazon", "preference"),
    ("My boss likes golf", "preference"),
    ("Hi there!", ""),
    ("What's the weather like in Paris?", ""),
    ("Write me a function that sorts a list", ""),
    ("If I were a doctor, I would be busy", ""),
    ("Can you recommend a good book?", ""),
    ("Thanks, that's perfect", ""),
    ("Do I like coffee?", ""),
    ("It would be nice to live in Spain", ""),
    ("Ok, got it", ""),
    # mixed
    ("The user told me he is a software engineer who graduated from Stanford", "career education"),
    ("I'm a teacher and my husband is a cop", "career preference"),
    ("My sister is a nurse, but I'm an accountant", "preference career"),
    ("I work in Boston, love running, and ran a half marathon yesterday", "career preference action"),
    ("I studied law but now I work as a UX researcher", "education career"),
    ("Hello, my name is Wang Fang, could you review this code?", "preference"),
    ("I met with my advisor today and decided to change my thesis topic", "meeting decision"),
    ("I'm a designer, I live in Oslo and I don't drink coffee", "career preference preference"),
)
