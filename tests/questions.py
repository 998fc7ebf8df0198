"""Tiny files in the formats that `octavo bench recall` reads, with contents of their own."""

import json
from pathlib import Path
from typing import Any


def locomo() -> list[dict[str, Any]]:
    """Two conversations of two sessions each; one question has evidence that exists only in part, two have none."""
    return [
        {
            "sample_id": "baker",
            "conversation": {
                "speaker_a": "Ines",
                "speaker_b": "Tom",
                "session_1_date_time": "12:05 am on 3 March, 2024",
                "session_1": [
                    _turn("Ines", "D1:1", "I opened my bakery on the harbour yesterday."),
                    _turn("Tom", "D1:2", "Congratulations! What do you sell?"),
                    _turn("Ines", "D1:3", "Mostly rye bread, and saffron buns on Fridays."),
                ],
                "session_2_date_time": "12:30 pm on 4 April, 2024",
                "session_2": [
                    _turn("Tom", "D2:1", "My violin teacher moved to Porto."),
                    _turn("Ines", "D2:2", "Look at my new oven.", blip_caption="a photo of a copper oven"),
                ],
                "session_3_date_time": "1:00 pm on 9 May, 2024",
            },
            "qa": [
                _asked("What does Ines sell on Fridays?", 4, "D1:3"),
                _asked("Which instrument does Tom learn, the violin?", 4, "D2:1", "D2:1"),
                _asked("What is the copper thing in the photo?", 2, "D2:2", "D9:9"),
                _asked("Where is the bakery, and where did the violin teacher go?", 1, "D1:1", "D2:1"),
                _asked("Who is glad?", 3, "D1:2; D2:1"),
                _asked("Who is sad?", 3),
            ],
        },
        {
            "sample_id": "glider",
            "conversation": {
                "session_1_date_time": "some day",
                "session_1": [_turn("Wu", "D1:1", "I flew a glider over the valley.")],
                "session_10_date_time": "9:15 am on 1 June, 2024",
                "session_10": [_turn("Wu", "D10:1", "The glider needs a new wing.")],
            },
            "qa": [_asked("What does the glider need, a wing?", 5, "D10:1")],
        },
    ]


def memdaily() -> list[dict[str, Any]]:
    """Two trajectories; a gold id stands twice, and one does not exist."""
    return [
        {
            "type": "simple_roles",
            "tid": 7,
            "message_list": [
                _message(0, "我表哥住在成都。", "2024年04月01日 周一 08:01"),
                _message(1, "我表哥喜欢吃火锅。", "2024年04月02日 周二 09:30"),
                _message(2, "图书馆周末不开门。", "2024年04月03日 周三 17:34"),
            ],
            "question_list": [
                {"qid": 0, "question": "我表哥住在哪里？喜欢吃什么？", "target_step_id": [0, 1, 1, 9]}
            ],
        },
        {
            "type": "noisy_items",
            "tid": 7,
            "message_list": [
                _message(0, "新买的自行车是绿色的。", "前天"),
                _message(1, "钥匙放在抽屉里。", "2024年04月01日"),
            ],
            "question_list": [{"qid": 0, "question": "自行车是什么颜色？", "target_step_id": [0]}],
        },
    ]


def written(path: Path, parsed: Any) -> Path:
    path.write_text(json.dumps(parsed, ensure_ascii=False))
    return path


def _turn(speaker: str, dia_id: str, text: str, **more: str) -> dict[str, str]:
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **more}


def _asked(question: str, category: int, *evidence: str) -> dict[str, Any]:
    return {"question": question, "category": category, "evidence": list(evidence)}


def _message(mid: int, message: str, time: str) -> dict[str, Any]:
    return {"mid": mid, "message": message, "time": time, "place": "四川成都"}
