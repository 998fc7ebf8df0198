"""What of a text its owner says: code, texts to work on and the other side of a conversation are only shown."""

import re

from octavo.layers.deciding import OwnerType

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CITED = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)
#: "Translate this: I am a doctor" says of nobody that they are a doctor.
_TASK_EN = re.compile(
    r"(?:^|[.!?\n]\s{0,3}|\b(?:please|you|me)\s)(?:translate|rewrite|rephrase|reword|paraphrase|proofread|summari[sz]e"
    r"|(?:edit|shorten|continue|convert|correct|improve|analy[sz]e|classify|polish|fix|check) (?:this|these|the|my|it)\b)"
    r"(?:[^\n.!?:]{0,80}:|[^\n.!?:]{0,40}\b(?:following|below)\b[^\n.!?:]{0,40}\n)",
    re.IGNORECASE,
)
_TASK_ZH = re.compile(
    r"(?:^|[。！？，,\n])\s{0,3}(?:(?:请|帮我|帮忙|麻烦|给我|你|您|能|可以|能不能)[^。！？，,\n：:我]{0,6})?(?:(?:把|将|用|对)[^。！？，,\n：:我]{1,16})?"
    r"(?:翻译|润色|改写|重写|校对|总结|概括|续写|扩写|缩写|仿写|(?:纠正|分析|检查|修改).{0,6}(?:语法|错别字|病句|句|段|文|稿|简历|下面|以下))"
    r"[^。！？\n：:了过]{0,40}[：:\n]"
)
_ASSISTANT = re.compile(
    r"\s{0,4}(?:\[|\*\*)?(?:assistant|ai|bot|chatbot|chatgpt|system|agent|助手|助理|机器人|客服|系统|小助手|智能体)(?:\]|\*\*)?\s?[:：]",
    re.IGNORECASE,
)
_USER = re.compile(
    r"\s{0,4}(?:\[|\*\*)?(?:user|human|me|customer|我|用户|客户)(?:\]|\*\*)?\s?[:：]\s?", re.IGNORECASE
)


def own_words(text: str, owner_type: OwnerType) -> str:
    """The text without what is only shown in it."""
    text = _CITED.sub("", _CODE.sub("\n", text))
    for task in (_TASK_EN, _TASK_ZH):
        if found := task.search(text):
            text = text[: found.start()]  # where what is shown ends, nobody can tell
    if ":" not in text and "：" not in text:
        return text
    mine, other = (_USER, _ASSISTANT) if owner_type == "user" else (_ASSISTANT, _USER)
    kept, own = [], True
    for line in text.split("\n"):
        if other.match(line):
            own = False
        elif label := mine.match(line):
            own = True
            kept.append(line[label.end() :])
            continue
        if own:
            kept.append(line)
    return "\n".join(kept)
