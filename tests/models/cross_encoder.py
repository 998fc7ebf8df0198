"""A tiny cross-encoder in a folder: a real ONNX graph whose score is the number of tokens that question and text share.

No weights can be had without a network, and none are needed to see that both texts, the right way round, reach a graph.
"""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

FLOAT, INT64 = 1, 7
WORDS = ["the", "cat", "sat", "on", "a", "mat", "rent", "is", "due", "where", "does", "sit"]


def make_cross_encoder(folder: Path) -> Path:
    """Write model.onnx and tokenizer.json into the folder."""
    folder.mkdir()
    names = ["[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = Tokenizer(WordLevel({name: at for at, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    nodes = [
        _node("Cast", ["token_type_ids"], "answer", to=FLOAT),
        _node("Cast", ["attention_mask"], "read", to=FLOAT),
        _node("Sub", ["read", "answer"], "question"),
        _node("Unsqueeze", ["input_ids"], "rows", axes=[2]),
        _node("Unsqueeze", ["input_ids"], "columns", axes=[1]),
        _node("Equal", ["rows", "columns"], "same"),
        _node("Cast", ["same"], "equal", to=FLOAT),
        _node("Unsqueeze", ["question"], "asked", axes=[2]),
        _node("Unsqueeze", ["answer"], "answering", axes=[1]),
        _node("Mul", ["asked", "answering"], "across"),
        _node("Mul", ["equal", "across"], "shared"),
        _node("ReduceSum", ["shared"], "count", axes=[1, 2], keepdims=0),
        _node("Unsqueeze", ["count"], "logits", axes=[1]),
    ]
    inputs = [_value(name, INT64) for name in ("input_ids", "attention_mask", "token_type_ids")]
    graph = b"".join(
        [_field(1, node) for node in nodes]
        + [_field(2, b"shared")]
        + [_field(11, given) for given in inputs]
        + [_field(12, _value("logits", FLOAT))]
    )
    model = _number(1, 6) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, 11))
    (folder / "model.onnx").write_bytes(model)
    return folder


# What ONNX needs of the protocol buffers' format.


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _node(kind: str, inputs: list[str], output: str, **attributes) -> bytes:
    made = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    made += _field(4, kind.encode())
    for name, value in attributes.items():
        if isinstance(value, list):
            said = b"".join(_number(8, one) for one in value) + _number(20, 7)
        else:
            said = _number(3, value) + _number(20, 2)
        made += _field(5, _field(1, name.encode()) + said)
    return made


def _value(name: str, kind: int) -> bytes:
    sides = ("batch", "one") if kind == FLOAT else ("batch", "length")
    shape = b"".join(_field(1, _field(2, side.encode())) for side in sides)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))
