"""mem0's Memory with a hashing embedder; runs in mem0's own environment."""

import hashlib
import json
import os
import sys
import tempfile
from time import perf_counter

os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused"}
_DIMENSIONS = 384


class Hashing:
    """An embedder that takes no time: a mem0 user's real one takes milliseconds."""

    def embed(self, text, _action=None):
        vector = [0.0] * _DIMENSIONS
        for word in text.lower().split():
            digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
            vector[int.from_bytes(digest) % _DIMENSIONS] += 1.0
        return vector

    def embed_batch(self, texts, _action="add"):
        return [self.embed(text) for text in texts]


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEM0_DIR"] = folder
        from mem0 import Memory

        config = {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": _DIMENSIONS},
            },
            "history_db_path": f"{folder}/history.db",
        }
        memory = Memory.from_config(config)
        memory.embedding_model = Hashing()
        spent = {"add": 0.0, "search": 0.0}
        for number in range(count):
            user = f"user-{number % 10}"
            text = (
                f"I bought {number} green chairs for room {number * 7} and I like the colour {number * 13}."
            )
            began = perf_counter()
            memory.add(text, user_id=user, infer=False)
            spent["add"] += perf_counter() - began
            began = perf_counter()
            memory.search(f"which chairs are in room {number * 7}?", filters={"user_id": user})
            spent["search"] += perf_counter() - began
        print(json.dumps({verb: count / seconds for verb, seconds in spent.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
