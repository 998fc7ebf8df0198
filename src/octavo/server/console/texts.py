"""The words of the console in Chinese, by the English ones; a test holds them to what the templates and errors say."""

import functools
import re

CHINESE = {
    # what stands around every page
    "Console": "控制台", "Skip to the content": "跳到正文", "Pages": "页面", "Overview": "概览", "People": "用户", "Agents": "智能体", "Agent": "智能体",
    "Search": "搜索", "Context": "上下文", "Sessions": "会话", "Log": "日志", "Reliability": "可靠性", "Vault": "文档库",
    "Access": "访问", "Sign in": "登录", "Sign out": "退出", "API key": "API 密钥",
    "This API key is unknown, expired or revoked.": "这个 API 密钥不存在、已过期或已吊销。",
    "A key is made with the command": "密钥用这条命令创建：",
    "Saved.": "已保存。", "Added.": "已添加。", "Rejected: it is not learnt again.": "已拒绝：不会再学到。", "Undone.": "已撤销。",
    "Erased.": "已彻底删除。", "Put back into the queue.": "已放回队列。", "Discarded.": "已丢弃。", "Tried.": "已重试。",
    "Revoked.": "已吊销。", "Copy": "复制", "Copied": "已复制", "Show": "显示", "Find": "查找", "Open": "打开", "More": "更多",
    "Nothing.": "没有。", "None.": "没有。", "Nobody.": "没有人。", "yes": "是", "no": "否", "any": "任意", "all": "全部",
    "never": "永不", "for ever": "永久", "days": "天", "Days": "天数",
    # the first page
    "Nothing is remembered yet": "还没有任何记忆", "Five lines of Python:": "五行 Python：",
    "Any language, over HTTP:": "任何语言，通过 HTTP：",
    "Claude, Cursor, VS Code and other programs that speak MCP:": "Claude、Cursor、VS Code 和其他支持 MCP 的程序：",
    "Or add something here:": "或者在这里添加：", "Users": "用户", "Profile memories": "画像记忆", "Event memories": "事件记忆",
    "Messages": "消息", "Observations": "观察", "Agent events": "智能体事件", "Turns": "回合", "Changes": "修改",
    "The last 30 days": "最近 30 天", "Messages and events for each of the last 30 days": "最近 30 天每天的消息和事件数",
    "Memories by category": "按类别统计的记忆", "Recent changes": "最近的修改", "Health": "健康", "Store": "存储",
    "Takes writes": "可以写入", "Waiting": "等待中", "Dead letters": "死信", "up": "正常", "down": "不可用",
    # people
    "Name": "名称", "Name begins with": "名称开头", "First": "最早", "Last activity": "最近活动", "Somebody new": "新用户",
    "Profile": "画像", "Events": "事件", "Nothing is known.": "还不了解。", "What happened": "发生过的事", "Export": "导出",
    "Forget…": "遗忘…", "Add a memory": "添加记忆", "Text": "内容", "Layer": "层", "Category": "类别", "by its words": "由内容决定",
    "Expires": "过期时间", "Reason": "原因", "Add": "添加", "Forget": "遗忘", "Where": "位置", "How many": "数量",
    "This would be erased for good, also from the log; nothing brings it back:": "以下内容将被彻底删除，日志也不留，无法恢复：",
    "With it goes what was said in their own sessions and names nobody, their document, and what waits.": "其独有会话中未注明用户的内容、其文档和等待写入的内容也一并删除。",
    "Count all of it": "全部计数", "This was erased for good:": "以下内容已彻底删除：", "Repeat the name": "再输入一次名称",
    "Keep rejected what was rejected": "已拒绝的内容保持拒绝", "Erase for good": "彻底删除", "Certificate": "证明", "scrub": "清扫",
    "Out of reach:": "无法触及：", "pending": "待清扫", "done": "已清扫", "found": "找到的",
    # a memory and the log
    "Memory": "记忆", "Whose": "属于", "agent": "智能体", "Version": "版本", "Happened": "发生时间",
    "In its conversation": "在原对话中查看", "Disk": "磁盘", "bytes": "字节", "Id": "标识", "Metadata": "元数据", "Where it came from": "来源",
    "Index of words": "词语索引", "It is indexed.": "已索引。",
    "It waits to be indexed, and is found all the same.": "等待索引，仍能找到。", "Vector": "向量", "It has a vector of": "已有向量，模型：",
    "It waits for a vector of": "等待生成向量，模型：", "It has no vector; the command octavo reindex makes one of": "没有向量，可用命令 octavo reindex 生成，模型：",
    "It is not read by": "此模型不读这段内容：", "It may have a vector of": "可能有向量，模型：",
    "There is no model: memories are found by their words.": "没有模型：按词语查找记忆。",
    "It was written as it stands.": "直接写入，没有来源。", "Edit": "编辑", "Save": "保存", "Remove": "移除", "Reject": "拒绝",
    "A rejected memory is not learnt again, from whatever text.": "被拒绝的记忆不会再从任何文本中学到。",
    "It is gone; its log is left.": "已经不在，只剩日志。", "History": "历史", "Undo": "撤销", "When": "时间", "Action": "操作",
    "Change": "修改", "From": "从", "To": "到", "User": "用户", "insert": "新增", "update": "更新", "ignore": "忽略", "delete": "删除", "expire": "过期",
    "preference": "偏好", "ability": "能力", "career": "职业", "education": "教育", "personality": "性格", "value": "价值观",
    "conversation": "对话", "meeting": "会议", "action": "行动", "decision": "决定", "event": "事件", "other": "其他",
    "profile": "画像",
    # search and context
    "Question": "问题", "Source": "来源", "As of": "截至", "Why not this id?": "为什么没有这个标识？", "everyone": "所有人",
    "These are left out until they are indexed, which goes on meanwhile:": "以下内容尚未索引，索引完成前不参与搜索（正在进行）：",
    "An agent would wait until these are indexed, which goes on meanwhile; ask again in a while:": "智能体要等以下内容索引完成（正在进行），请稍后再试：",
    "Memory probably holds no answer: these are the least bad ones.": "记忆里多半没有答案：以下只是相对接近的。",
    "Memory probably holds no answer.": "记忆里多半没有答案。", "presence": "有答案的可能", "Why not this one?": "为什么没有这一条？",
    "Shared words": "共有的词", "Lacking words": "缺少的词", "about": "关于", "Where does it stand?": "它排在哪里？",
    "Whose memory? Give a user or an agent, and perhaps a session of theirs.": "谁的记忆？请给出用户或智能体，可加上其会话。", "Tokens": "词元数", "tokens": "词元", "left out": "条未放入",
    "words": "词语", "meaning": "语义", "time": "时间", "neighbour": "邻近", "recency": "新近", "re-ranked": "重排", "summary": "摘要", "recent": "最近内容",
    "facts": "事实", "documents": "文档", "episodes": "事件记忆", "entities": "实体", "exchanges": "问答", "configs": "配置", "knowledge": "知识",
    # sessions
    "Nothing here; there is more before.": "这里没有；更早的还有。", "Session": "会话", "Summary": "摘要", "Type": "类型", "messages": "消息", "observations": "观察", "events": "智能体事件",
    "turns": "回合", "user": "用户", "assistant": "助手", "system": "系统", "tool": "工具", "message": "消息", "running": "进行中",
    "ok": "成功", "error": "出错", "user_message": "用户消息", "model_response": "模型回答", "tool_call_start": "调用工具",
    "tool_call_success": "工具成功", "tool_call_error": "工具出错", "agent_init": "智能体启动", "agent_error": "智能体出错",
    "middleware_pre": "中间件（前）", "middleware_post": "中间件（后）", "custom": "自定义",
    # reliability, documents, access
    "Queue": "队列", "Damaged lines": "损坏的行", "Replayed": "已补写", "Refused": "被拒绝的写入", "Bytes on disk": "磁盘字节",
    "The oldest waits since": "最早的等待自", "Try now": "立即重试", "What": "内容", "Error": "错误", "Retry": "重试", "Discard": "丢弃",
    "There is no failure queue.": "没有失败队列。", "Erasures": "彻底删除记录", "Removed": "已删除", "Retention": "保留期限",
    "There is no vault here.": "这里没有文档库。", "Document": "文档", "Bytes": "字节", "Changed": "修改时间", "In step": "已同步",
    "It is gone; what it said before is left.": "已经不在，只剩以前的版本。", "conflict": "冲突", "replaced": "被替换", "deleted": "已删除",
    "The new key, which is not shown again:": "新的密钥，只显示这一次：", "Keys": "密钥", "Made": "创建于", "Ends": "结束于", "revoked": "已吊销",
    "Revoke": "吊销", "Only this user": "只限这个用户", "Make a key": "创建密钥", "Settings": "配置", "read": "读", "write": "写",
    "admin": "管理", "session": "会话", "memory": "记忆",
}  # fmt: skip

#: Of statuses.
TITLES = {
    400: "无法读取", 401: "需要登录", 403: "没有权限", 404: "找不到", 405: "不允许的方法", 408: "超时", 409: "冲突", 413: "内容太大",
    415: "格式不对", 421: "地址不对", 422: "填写有误", 429: "请求太多", 500: "服务器出错", 501: "不支持", 503: "暂时不可用", 504: "超时",
}  # fmt: skip

#: By the English sentence; {} is what differs from time to time, and is taken over.
SENTENCES = {
    # of the console itself
    "there is no such file": "没有这个文件",
    "there is no such page": "没有这个页面",
    "this form may have at most {} bytes": "这个表单最多 {} 字节",
    "the form cannot be read": "无法读取表单",
    "this form was not sent from a page of this console, or that page is too old; open it again": "这个表单不是从本控制台的页面发出的，或者页面已过期；请重新打开页面",
    "there is no key with this id": "没有这个标识的密钥",
    "to ask about everyone needs a key with admin access; or name whose memory it is": "查询所有人需要管理权限的密钥；或者指明是谁的记忆",
    "the name was not repeated, so that nothing was erased": "没有再次输入名称，因此什么也没有删除",
    "there is no dead letter {}": "没有死信 {}",
    "there is no failure queue: failure_queue.enabled is false": "没有失败队列：failure_queue.enabled 为 false",
    "there is no document {}": "没有文档 {}",
    # of what is asked and sent
    "there is no memory {}": "没有记忆 {}",
    "there is no memory {}, and there was none": "没有记忆 {}，也从未有过",
    "there is no log row {}": "没有日志记录 {}",
    "there is nothing to undo: {} says that nothing was changed": "没有可撤销的内容：{} 没有改变任何东西",
    "only the last change of a memory can be undone": "只能撤销一条记忆的最后一次修改",
    "only the last change of a memory can be undone: {} is newer ({})": "只能撤销一条记忆的最后一次修改：{} 更新（{}）",
    "the memory {} was removed meanwhile": "记忆 {} 已被删除",
    "others changed {} {} times while this change was tried; try again": "{} 同时被他人修改了 {} 次；请重试",
    "give user_id or agent_id, not both; got {} and {}": "用户和智能体只能填一个；现在是 {} 和 {}",
    "{}: must say something": "{}：内容不能为空",
    "{}: Field required": "{}：必须填写",
    "{}: must be a time of ISO 8601, such as {}; got {}": "{}：必须是 ISO 8601 时间，例如 {}；现在是 {}",
    "{}: must be {} or later": "{}：不能早于 {}",
    "{}: must be the `next` of an answer of this listing": "{}：必须是上一页给出的位置",
    "{}: must be at most {} bytes in UTF-8": "{}：UTF-8 编码后最多 {} 字节",
    "{}: must not hold a NUL": "{}：不能含有 NUL 字符",
    "{}: String should have at most {} characters": "{}：最多 {} 个字符",
    "{}: String should have at least {} character": "{}：至少 {} 个字符",
    "{}: Input should be {}; got {}": "{}：应为 {}；现在是 {}",
    # of who may do what
    "this API key is unknown, expired or revoked": "这个 API 密钥不存在、已过期或已吊销",
    "this key opens the memory of another user; name that user, or nobody": "这个密钥只能打开另一个用户的记忆；请填写那个用户，或不填",
    "this key opens the memory of one user, and no agent's own": "这个密钥只能打开一个用户的记忆，不能打开智能体自己的记忆",
    "this key opens the memory of one user, and {} is not only theirs": "这个密钥只能打开一个用户的记忆，而 {} 不只属于这个用户",
    "this needs a key with {} access; this one has {}": "这需要 {} 权限的密钥；现在的密钥只有 {} 权限",
    "this key may make {} requests a minute; come back in {} s": "这个密钥每分钟最多 {} 次请求；请 {} 秒后再来",
    "a page of another site may not call this server (server.cors_origins)": "其他网站的页面不能调用这个服务（server.cors_origins）",
    "the body must be a form: it is sent by a page of the console": "请求内容必须是控制台页面发出的表单",
    "this path takes {}": "这个地址只接受 {}",
    # of what is away
    "the store of this server does not list names (octavo.kernel.ports.ListsNames)": "这个服务的存储不能列出名称（octavo.kernel.ports.ListsNames）",
    "the store cannot be reached now; the server's log says why at request_id {}": "现在无法连接存储；原因见服务日志，request_id {}",
    "a model cannot be reached now; the server's log says why at request_id {}": "现在无法连接模型；原因见服务日志，request_id {}",
    "the store did not answer within {} s": "存储没有在 {} 秒内回答",
    "the server failed; its log says why at request_id {}": "服务器出错；原因见服务日志，request_id {}",
    "not done within {} s; a write may still have been kept": "没有在 {} 秒内完成；写入可能仍已保存",
    "too many requests of this caller are under way, or too large ones; come back in 1 s": "这个调用者的请求太多或太大；请 1 秒后再来",
}  # fmt: skip


def translate(detail: str) -> str:
    """A sentence about what went wrong in Chinese, as far as it is known; several are joined by semicolons."""
    for pattern, said in _patterns():
        if found := pattern.fullmatch(detail):
            return said.format(*found.groups())
    parts = detail.split("; ")
    return "；".join(map(translate, parts)) if len(parts) > 1 else detail


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """What a sentence looks like, and what it is in Chinese; those with the most words of their own come first."""
    ordered = sorted(SENTENCES, key=lambda text: len(text.replace("{}", "")), reverse=True)
    return [(re.compile(_spelling(text), re.DOTALL), SENTENCES[text]) for text in ordered]


def _spelling(text: str) -> str:
    first, *rest = map(re.escape, text.split("{}"))
    # What begins with the name of a field is one of several such sentences, and a name has no spaces.
    return "(.+?)".join([f"([^\\s:;]+){rest[0]}", *rest[1:]] if rest and not first else [first, *rest])
