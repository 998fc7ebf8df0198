"""What went wrong, in Chinese: the titles of statuses, and the sentences that pages of the console can come to say."""

import functools
import re

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


def in_chinese(detail: str) -> str:
    """A sentence about what went wrong in Chinese, as far as it is known; several are joined by semicolons."""
    for pattern, said in _patterns():
        if found := pattern.fullmatch(detail):
            return said.format(*found.groups())
    parts = detail.split("; ")
    return "；".join(map(in_chinese, parts)) if len(parts) > 1 else detail


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """What a sentence looks like, and what it is in Chinese; those with the most words of their own come first."""
    ordered = sorted(SENTENCES, key=lambda text: len(text.replace("{}", "")), reverse=True)
    return [(re.compile(_spelling(text), re.DOTALL), SENTENCES[text]) for text in ordered]


def _spelling(text: str) -> str:
    first, *rest = map(re.escape, text.split("{}"))
    # What begins with the name of a field is one of several such sentences, and a name has no spaces.
    return "(.+?)".join([f"([^\\s:;]+){rest[0]}", *rest[1:]] if rest and not first else [first, *rest])
