"""FastEmbedder with a real model: meaning, sameness, threads and folders of every kind."""

import asyncio
import shutil
import sys
import threading
from array import array

import pytest

from octavo import ConfigError, ModelError
from octavo.models import FastEmbedder, open_embedder
from octavo.models.checks import check_vectors
from octavo.models.local import FolderModel

LONG = "We swam in the cold lake all day long and then we walked home. " * 12  # more than 128 tokens
TEXTS = [
    "a cat sat on the mat",
    "kitten on a rug",
    "the invoice is overdue",
    "",
    LONG,
    "Caroline adopted two dogs",
]


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.fixture
async def embedder(model_dir):
    made = open_embedder(f"fastembed:{model_dir}")
    yield made
    await made.close()


@pytest.fixture
def folder(model_dir, tmp_path):
    """A folder with the model's files that a test may change, under a name that says nothing."""
    made = tmp_path / "some-model"
    made.mkdir()
    for file in ("model.onnx", "tokenizer.json"):
        (made / file).symlink_to(model_dir / file)
    return made


async def test_meaning(embedder):
    """What means the same is nearer than what does not."""
    cat, kitten, invoice = await embedder.embed(TEXTS[:3])
    assert cosine(cat, kitten) > cosine(cat, invoice) + 0.1
    for found in (cat, kitten, invoice):
        assert isinstance(found, array)
        assert found.typecode == "f"
        assert len(found) == 384
        assert cosine(found, found) == pytest.approx(1, abs=1e-5)


async def test_a_vector_depends_on_its_text_alone(embedder):
    """The same text has the same vector, alone or among others, however often and at the same time."""
    together = await embedder.embed(TEXTS)
    assert together == [(await embedder.embed([text]))[0] for text in TEXTS]
    assert await asyncio.gather(*(embedder.embed(TEXTS[::-1]) for _ in range(3))) == [together[::-1]] * 3
    assert await embedder.embed([]) == []


async def test_batches_on_request(model_dir, embedder):
    """With a batch size, an int8 model answers nearly the same."""
    batched = FastEmbedder(model_dir, batch_size=8)
    for one, other in zip(await embedder.embed(TEXTS), await batched.embed(TEXTS), strict=True):
        assert cosine(one, other) > 0.97
    await batched.close()


async def test_the_same_as_fastembed(model_dir, embedder):
    """fastembed, given the folder, computes the same from what it reads of the text."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        "tests/gte-small", PoolingType.MEAN, True, ModelSource(hf="tests/none"), 384, model_file="model.onnx"
    )
    reference = TextEmbedding("tests/gte-small", specific_model_path=str(model_dir))
    for text in TEXTS[:3]:
        (expected,) = reference.embed([text])
        (found,) = await embedder.embed([text])
        assert cosine(found, expected.tolist()) == pytest.approx(1, abs=1e-5)


async def test_long_texts_are_read_to_the_models_end(model_dir, embedder):
    """The tokenizer's file says 128 tokens, which is where its export was tested, not where the model ends."""
    more = LONG + "The invoice is overdue."
    one, other = await embedder.embed([LONG, more])
    assert cosine(one, other) < 0.9999
    short = FastEmbedder(model_dir, max_tokens=128)
    one, other = await short.embed([LONG, more])
    assert one == other
    assert short.name != embedder.name
    await short.close()


async def test_hostile_texts(embedder):
    """Nothing that is a string is an error."""
    texts = ["", " ", "\x00", "\ud800 half a pair", "🐈" * 50, "x" * 200_000, "记忆", "[CLS] [SEP] [PAD]"]
    found = await embedder.embed(texts)
    assert [len(one) for one in found] == [384] * len(texts)
    for wrong in ("one string", [b"bytes"], [None]):
        with pytest.raises(TypeError, match="list of texts"):
            await embedder.embed(wrong)


async def test_loaded_once_on_first_use_in_a_thread(model_dir, monkeypatch):
    """Opening loads nothing; concurrent first uses load once; the event loop's thread never works."""
    import onnxruntime

    loads, threads = [], set()
    real_session, real_embed = onnxruntime.InferenceSession, FolderModel.embed

    def session(*args, **options):
        loads.append(threading.current_thread())
        return real_session(*args, **options)

    def embed(self, texts, *, asking):
        threads.add(threading.current_thread())
        return real_embed(self, texts, asking=asking)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(FolderModel, "embed", embed)
    made = FastEmbedder(model_dir, threads=1)
    assert loads == []
    await asyncio.gather(*(made.embed([text]) for text in TEXTS))
    assert len(loads) == 1
    assert threads == set(loads)
    assert threading.main_thread() not in threads
    await made.close()


async def test_a_question_does_not_wait_for_all_records(model_dir, monkeypatch):
    """It gets its turn between two batches."""
    begun = asyncio.Event()
    loop, real_embed = asyncio.get_running_loop(), FolderModel.embed

    def embed(self, texts, *, asking):
        loop.call_soon_threadsafe(begun.set)
        return real_embed(self, texts, asking=asking)

    monkeypatch.setattr(FolderModel, "embed", embed)
    made = FastEmbedder(model_dir)
    records = asyncio.create_task(made.embed([f"record number {n}" for n in range(30)]))
    await begun.wait()
    await made.embed(["a question"], asking=True)
    assert not records.done()
    assert len(await records) == 30
    await made.close()


async def test_a_cancelled_caller_harms_nobody(embedder):
    """The next call is answered as ever."""
    call = asyncio.create_task(embedder.embed([LONG] * 10))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert len(await embedder.embed(TEXTS)) == len(TEXTS)


async def test_closed(model_dir):
    """Used after close it says so; closing twice, or before first use, is fine."""
    made = FastEmbedder(model_dir)
    await made.close()
    made = FastEmbedder(model_dir)
    await made.embed(["hello"])
    name = next(thread.name for thread in threading.enumerate() if "octavo-model" in thread.name)
    await made.close()
    await made.close()
    assert name not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ModelError, match="closed"):
        await made.embed(["hello"])


async def test_a_vector_without_direction(model_dir):
    """It fails the call, and says what is wrong."""

    class Stub(FolderModel):
        def open(self): ...

        def embed(self, texts, *, asking):
            rows = [[float("nan") if text == "bad" else 1.0, 2.0] for text in texts]
            return check_vectors(rows, len(texts))

    made = FastEmbedder(model_dir, batch_size=2)
    made._model = Stub(model_dir)
    assert len(await made.embed(["a", "b", "c"])) == 3
    with pytest.raises(ModelError, match=r"text \d of 2: .*NaN"):
        await made.embed(["long long long", "a", "longer longer longer", "b", "bad", "c"])
    await made.close()


def test_names(model_dir, folder, tmp_path):
    """A space is named by what is in the folder, not by where it is; what changes vectors changes the name."""
    name = FastEmbedder(folder).name
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copytree(folder, moved / "some-model", symlinks=True)
    assert FastEmbedder(str(moved / "some-model")).name == name
    assert name.startswith("fastembed:some-model@")
    assert FastEmbedder(folder, threads=1, query_prefix="? ", languages="any").name == name
    others = [
        FastEmbedder(folder, **{option: value}).name
        for option, value in {"pooling": "cls", "passage_prefix": "p ", "max_tokens": 64}.items()
    ]
    (folder / "model.onnx").unlink()
    changed = bytearray((model_dir / "model.onnx").read_bytes())
    changed[1] ^= 1
    (folder / "model.onnx").write_bytes(changed)
    others.append(FastEmbedder(folder).name)
    assert len({name, *others}) == 5
    assert FastEmbedder(folder, name="mine").name == "mine"
    assert repr(FastEmbedder(folder, name="mine")) == "FastEmbedder('mine')"


async def test_pooling(model_dir, folder):
    """Mean by default, what sentence-transformers wrote where it did, what the caller says before all."""
    mean, cls, last = (FastEmbedder(folder, pooling=pooling) for pooling in ("mean", "cls", "last"))
    default = FastEmbedder(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    told = FastEmbedder(folder)
    found = [(await one.embed(["two words"]))[0] for one in (mean, cls, last, default, told)]
    assert found[0] == found[3]
    assert found[1] == found[4]
    assert cosine(found[0], found[1]) < 0.999
    assert found[2] not in (found[0], found[1])
    none = FastEmbedder(folder, pooling="none")
    with pytest.raises(ModelError, match="'none' cannot pool"):
        await none.embed(["a"])
    for one in (mean, cls, last, default, told, none):
        await one.close()


@pytest.mark.parametrize(
    ("files", "tokens"),
    [
        ({}, 512),
        ({"tokenizer_config.json": '{"model_max_length": 256, "max_length": 128}'}, 256),
        ({"tokenizer_config.json": '{"model_max_length": 1000000000000000019884624838656}'}, 512),
        ({"sentence_bert_config.json": '{"max_seq_length": 100}'}, 100),
        ({"config.json": '{"max_position_embeddings": 64}'}, 64),
        (
            {
                "config.json": '{"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}',
                "tokenizer_config.json": '{"model_max_length": 8192}',
            },
            512,
        ),
    ],
)
def test_how_far_a_model_reads(folder, files, tokens):
    """What the folder says of it, never past its positions."""
    for name, content in files.items():
        (folder / name).write_text(content)
    assert FolderModel(folder).max_tokens == tokens


async def test_prefixes_by_family(folder, monkeypatch):
    """A folder that is called e5 gets e5's words in front, unless the caller has others."""
    seen = []

    def embed(self, texts, *, asking):
        seen.extend(texts)
        return check_vectors([[1.0]] * len(texts), len(texts))

    monkeypatch.setattr(FolderModel, "embed", embed)
    e5 = folder.rename(folder.with_name("multilingual-e5-small-int8"))
    for options in ({}, {"query_prefix": "Q ", "passage_prefix": ""}):
        made = FastEmbedder(e5, **options)
        await made.embed(["a"], asking=True)
        await made.embed(["b"])
        await made.close()
    assert seen == ["query: a", "passage: b", "Q a", "b"]


def test_languages(model_dir, folder):
    """Declared, else by name: this model does not read Chinese. One whose name says nothing is asked about everything."""
    assert not (folder / "config.json").exists()  # so its name says nothing
    assert FastEmbedder(folder).reads("我上周去了杭州")
    for made in (FastEmbedder(model_dir), FastEmbedder(folder, languages=["en"])):
        assert made.reads("Where does Caroline live?")
        assert not made.reads("我上周去了杭州")
        assert not made.reads("Где живёт Каролина?")
    assert FastEmbedder(folder, languages="any").reads("我上周去了杭州")


def test_folders_that_are_none(folder, tmp_path):
    """Each says what is missing, when it is opened."""
    with pytest.raises(ConfigError, match=r"no folder '.*nowhere'"):
        open_embedder(f"fastembed:{tmp_path}/nowhere")
    with pytest.raises(ConfigError, match="pooling is one of mean, cls, last, none; got 'max'"):
        FastEmbedder(folder, pooling="max")
    with pytest.raises(ConfigError, match=r"no other\.onnx in"):
        FastEmbedder(folder, file="other.onnx")
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="is not JSON"):
        FastEmbedder(folder)
    (folder / "config.json").unlink()
    (folder / "model.onnx").rename(folder / "a.onnx")
    assert FastEmbedder(folder).name
    (folder / "b.onnx").symlink_to(folder / "a.onnx")
    with pytest.raises(ConfigError, match=r"no model\.onnx in .*file= chooses one of a\.onnx, b\.onnx"):
        FastEmbedder(folder)
    assert FastEmbedder(folder, file="b.onnx").name
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        FastEmbedder(folder, file="b.onnx")


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
async def test_broken_files(folder, file):
    """A file that cannot be loaded is a ModelError with its cause."""
    (folder / file).unlink()
    (folder / file).write_text("not what it says")
    made = FastEmbedder(folder)
    with pytest.raises(ModelError, match=r"fastembed:some-model@.* failed") as caught:
        await made.embed(["hello"])
    assert caught.value.__cause__ is not None
    await made.close()


def test_options_of_the_other_kind(folder):
    """What has no meaning for a folder or a hub name is refused, not ignored."""
    with pytest.raises(ConfigError, match="cache_dir is for a hub name"):
        FastEmbedder(folder, cache_dir="x")
    with pytest.raises(ConfigError, match="pooling is for a local folder"):
        FastEmbedder("BAAI/bge-small-en-v1.5", pooling="cls")
    with pytest.raises(ConfigError, match="threads must be more than 0; got 0"):
        FastEmbedder(folder, threads=0)


@pytest.mark.parametrize(
    ("spec", "package"), [("BAAI/bge-small-en-v1.5", "fastembed"), ("{folder}", "onnxruntime")]
)
def test_a_missing_package(spec, package, folder, monkeypatch):
    """The cure is named when the embedder is opened."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"{package}: pip install 'octavo\[fastembed\]'"):
        open_embedder(f"fastembed:{spec.format(folder=folder)}")


async def test_a_hub_name(model_dir, tmp_path):
    """fastembed runs what its cache holds under the name (here: other weights of the same shape), without network."""
    snapshot = tmp_path / "models--Qdrant--bge-small-en-v1.5-onnx-Q" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for file in model_dir.iterdir():
        (snapshot / file.name.replace("model.onnx", "model_optimized.onnx")).symlink_to(file)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(snapshot.name)
    made = open_embedder(
        f"fastembed:BAAI/bge-small-en-v1.5?cache_dir={tmp_path}&local_files_only=true&threads=1"
    )
    same = FastEmbedder(
        model_dir, pooling="cls", query_prefix="Represent this sentence for searching relevant passages: "
    )
    assert made.name == "fastembed:BAAI/bge-small-en-v1.5"
    assert made.reads("hello")
    assert not made.reads("你好，世界")
    for asking in (True, False):
        (one,) = await made.embed(["a cat sat on the mat"], asking=asking)
        (other,) = await same.embed(["a cat sat on the mat"], asking=asking)
        assert cosine(one, other) == pytest.approx(1, abs=1e-5)
    assert len(await made.embed(TEXTS)) == len(TEXTS)
    await made.close()
    await same.close()


async def test_a_hub_name_that_cannot_be_had(tmp_path):
    """A model that is not in the cache is a ModelError with the way out; one that is not known a ConfigError."""
    made = FastEmbedder("BAAI/bge-small-en-v1.5", cache_dir=str(tmp_path), local_files_only=True)
    with pytest.raises(ModelError, match=r"neither found nor downloaded.*fastembed:/path/to/folder"):
        await made.embed(["hello"])
    await made.close()
    made = FastEmbedder("nobody/nothing")
    with pytest.raises(ConfigError, match=r"fastembed knows no model 'nobody/nothing'; it knows .*bge-small"):
        await made.embed(["hello"])
    await made.close()
