"""The table of rules is what the reader does, and what its page says."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import decoders
from evals.replies.reader import Choices, read
from evals.replies.rules import QUESTION, RULES
from evals.suites.kidgym.decode import decode as read_action
from evals.suites.kumo.decode import decode as read_name
from evals.suites.multistar.read_answer import read_answer

CHOICES = Choices(QUESTION, tuple("ABCD"), first_of_list=True)
EXAMPLES = [(rule, *example) for rule in RULES for example in rule.examples]


@pytest.mark.parametrize(
    ("rule", "reply", "label"), EXAMPLES, ids=[f"{rule.name}: {reply}" for rule, reply, _ in EXAMPLES]
)
def test_an_example_is_read_by_its_rule(rule, reply, label):
    found = read(reply, CHOICES, rule.cut_off)
    assert rule.name in found.rule.split(", ")
    assert (None if found.option is None else "ABCD"[found.option]) == label


def test_every_rule_that_held_replies_are_read_by_is_in_the_table():
    names = {rule.name for rule in RULES}
    lists = json.loads((decoders.DATA / "kidgym_action_lists.json").read_text(encoding="utf-8"))
    found = set()
    for kind in ("natural", "hard"):
        for row in decoders._lines("kidgym", kind):
            found.add(
                read_action(row["reply"], row.get("actions") or lists[row["list"]], bool(row.get("cut_off"))).rule
            )
        for row in decoders._lines("multistar", kind):
            found.add(read_answer(row["reply"], row["labels"], row["options"], cut_off=row["cut_off"]).rule)
        for row in decoders._lines("kumo", kind):
            if "names" in row:
                found.add(read_name(row["reply"], row["names"], (), cut=row["cut_off"]).rule)
    assert {name for rule in found for name in rule.split(", ")} <= names
    assert len(found) > 25


def test_no_reply_is_read_outside_its_options_and_none_breaks_the_reader():
    """A letter counts whatever stands around it only if it is on offer."""
    for text in (
        "<answer>E</answer>",
        "E",
        "I choose E.",
        "\x00",
        "<answer>",
        "§b ¤3",
        "{" * 5000,
        "A, B " * 5000,
        "\\boxed{" * 2000,
    ):
        assert read(text, CHOICES).option is None
        read(text, CHOICES, cut_off=True)


@pytest.mark.parametrize("before", ["", "A long thought. " * 40])
def test_an_example_of_a_tag_is_no_answer_wherever_it_stands(before):
    assert read(f"{before}For example, <answer>B</answer> would be the form.", CHOICES).option is None


@pytest.mark.parametrize("behind", ["Wait, the label on C is blue.", "Sorry for the long text about C."])
def test_what_is_only_mentioned_behind_an_answer_does_not_replace_it(behind):
    assert read(f"<answer>B</answer> {behind}", CHOICES).option == 1


def test_of_a_long_reply_the_end_decides():
    thought = "The first panel has a circle and the second one a square. " * 200
    assert read(f"{thought}\nI choose C.", CHOICES).option == 2
    assert read(f"I choose C.\n{thought}\nI choose A.", CHOICES).option == 0


KIDGYM = (
    "pick up the item with label 3",
    "pick up the item with label 0",
    "put the item from backpack A into the basket with label 1",
    "put the item from backpack A into the basket with label 2",
)


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("B is correct; A, C and D are distractors.", "B"),
        ("B is right; A, C and D are other toys.", "B"),
        ("B is correct because label 0 is the apple; A, C and D are distractors.", "B"),
        ("❌ A / ✅ B", "B"),
        ("❌ A\n✅ B\n❌ C\n❌ D", "B"),
        ("Plan: C → B → A", "C-"),
        ("Order: C -> A", "C-"),
        ("My plan is C -> B -> D.", "C-"),
        ("Sequence: C, B, A", "C-"),
        ("<answer>B or, if impossible, C</answer>", "B-"),
        ("B, or if that is blocked, C", "B-"),
        ("If the door is red then B, otherwise A.", "-"),
        ("If it's a kite then B.", "-"),
        (r"\textbf{C}", "C"),
        (r"$\mathbf{C}$", "C"),
        ("I prefer to move to D", "D"),
        ("Best: B. Second best: A.", "B"),
        ("Not A, not B, C", "C"),
        ("Neither A nor B, C", "C"),
        ("Not A, B or D.", "C"),
        ("A no B yes C no D no", "B"),
        ("A yes, B no, C no, D no", "A"),
    ],
)
def test_what_a_careful_reader_takes_from_it(reply, options):
    """The option, or one of these with a hyphen for none."""
    found = read_action(reply, KIDGYM).option
    assert ("-" if found is None else "ABCD"[found]) in options


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("I prefer {} to {}", 0),
        ("Prefer {} to {}.", 0),
        ("My pick is {} as opposed to {}", 0),
        ("Neither {} nor {}: {}", 2),
        ("No {}, no {}: {}", 2),
    ],
)
@given(labels=st.permutations("ABCD"))
def test_of_options_that_are_compared_or_refused_the_other_is_meant(form, place, labels):
    found = read_action(form.format(*labels), KIDGYM).option
    assert found is not None and "ABCD"[found] == labels[place]


@pytest.mark.parametrize(
    "form",
    [
        *(
            "{}ではなく{}です。",
            "{}ではなくて{}です。",
            "{}じゃなくて{}だ。",
            "{}でなく{}を選びます。",
            "答えは{}ではなく{}です。",
        ),
        *("{}の代わりに{}を選びます。", "{}を選ばないで{}を選びます。"),
        *("与其选{}，不如选{}。", "与其选{}，还不如选{}。", "選{}不如選{}。", "别选{}。选{}。", "不是{}，而是{}。"),
        *(
            "{}가 아니라 {}입니다.",
            "{} 말고 {}를 선택합니다.",
            "{} 대신 {}를 선택합니다.",
            "{}를 제외하고 {}를 선택합니다.",
        ),
        *("Nicht {}, sondern {}.", "Pas {} mais {}.", "La réponse {} est fausse. Réponse : {}", "Fel: {}. Svar: {}"),
        *("Not {} but {}.", "Between {0} and {1}, {1} wins."),
    ],
)
@given(labels=st.permutations("ABCD"))
def test_in_any_language_the_option_behind_one_that_is_denied_is_meant(form, labels):
    found = read_action(form.format(*labels), KIDGYM).option
    assert found is not None and "ABCD"[found] == labels[1]


@pytest.mark.parametrize(
    "form",
    [
        # denied
        *(
            "{}を選びません。",
            "{}を選んではいけません。",
            "{}以外を選びます。",
            "别选{}。",
            "避免选{}。",
            "选{}不对。",
            "錯誤答案：{}",
        ),
        *("{}를 선택하지 마세요.", "오답: {}", "{}는 틀렸습니다.", "Falsche Antwort: {}", "Mauvaise réponse : {}"),
        *("Respuesta incorrecta: {}", "La risposta sbagliata è {}.", "Resposta errada: {}", "Неправильный ответ: {}"),
        *("Zła odpowiedź: {}", "Yanlış cevap: {}", "Jawaban yang salah: {}", "Fel svar: {}", "Vastaus ei ole {}."),
        *("Odpověď není {}.", "Λάθος απάντηση: {}", "תשובה שגויה: {}", "پاسخ {} نیست.", "الإجابة الخاطئة: {}"),
        # doubted, or on a condition
        *(
            "答えは{}でしょうか。",
            "未必选{}。",
            "정답은 {}일 수도 있습니다.",
            "La réponse est peut-être {}.",
            "Perhaps, {}.",
        ),
        *("La respuesta puede ser {}.", "Het antwoord is misschien {}.", "Ответ, возможно, {}.", "Svar: kanske {}"),
        *("假如门开着，选{}。", "ドアが開いていれば、{}です。", "만약 문이 열려 있으면 정답은 {}입니다."),
        *("Si la porte est ouverte, la réponse est {}.", "Se a porta estiver aberta, a resposta é {}."),
        *("Jeśli drzwi są otwarte, odpowiedź: {}", "Svaret är {} om dörren är öppen.", "Whoever takes {} is right."),
    ],
)
@given(label=st.sampled_from("ABCD"))
def test_in_any_language_what_is_denied_doubted_or_on_a_condition_is_not_read(form, label):
    assert read_action(form.format(label), KIDGYM).option is None


@pytest.mark.parametrize(
    "word",
    [
        "Svar",
        "Odpověď",
        "Válasz",
        "Vastaus",
        "Απάντηση",
        "Відповідь",
        "תשובה",
        "پاسخ",
        "诊断",
        "Rätt svar",
        "Oikea vastaus",
    ],
)
@given(label=st.sampled_from("ABCD"))
def test_the_word_for_answer_of_many_languages_is_known(word, label):
    assert read_action(f"{word}: {label}", KIDGYM).option == "ABCD".index(label)


@pytest.mark.parametrize("frame", ["{}", "Answer: {}", "<answer>{}</answer>"])
@pytest.mark.parametrize(
    "correction",
    [
        *("Edit: {}", "Update: {}", "Erratum: {}.", "Apologies, I meant {}.", "I mean {}.", "Make that {}."),
        *("Korrektur: {}", "Verzeihung, ich meinte {}.", "Correction : {}", "Pardon, je voulais dire {}."),
        *("Corrección: {}", "Perdón, quise decir {}.", "Correzione: {}.", "Scusa, volevo dire {}.", "Correção: {}."),
        *("Desculpe, quis dizer {}.", "Correctie: {}.", "Sorry, ik bedoelde {}.", "Rättelse: {}.", "Rettelse: {}."),
        *("Undskyld, jeg mente {}.", "Korjaus: {}.", "Anteeksi, tarkoitin {}.", "Poprawka: {}.", "Oprava: {}."),
        *("Javítás: {}.", "Corectare: {}.", "Scuze, voiam să spun {}.", "Διόρθωση: {}.", "Συγγνώμη, εννοούσα {}."),
        *("Исправление: {}.", "Извините, {}.", "Виправлення: {}.", "Düzeltme: {}.", "Pardon, {} demek istedim."),
        *("تصحيح: {}.", "عذرًا، {}.", "תיקון: {}.", "סליחה, התכוונתי {}.", "اصلاح: {}.", "ببخشید، منظورم {} بود."),
        *("सुधार: {}.", "সংশোধন: {}.", "更正：{}。", "抱歉，应该选{}。", "訂正：{}。", "すみません、{}です。"),
        *("정정: {}.", "죄송합니다, {}입니다.", "Xin lỗi, {}.", "แก้ไข: {}", "Koreksi: {}.", "Maaf, maksud saya {}."),
    ],
)
@given(labels=st.permutations("ABCD"))
def test_in_any_language_a_correction_replaces_the_answer_before_it(frame, correction, labels):
    found = read_action(f"{frame}\n\n{correction}".format(*labels[:1], labels[1]), KIDGYM).option
    assert found is not None and "ABCD"[found] == labels[1]


@pytest.mark.parametrize("frame", ["{}. ", "Answer: {}\n\n"])
@pytest.mark.parametrize(
    "correction",
    [
        *(
            "Zuzenketa: {}",
            "Cywiriad: {}",
            "Samahani, nilimaanisha {}.",
            "Leiðrétting: {}",
            "Parandus: {}",
            "Labojums: {}.",
        ),
        *("Pataisymas: {}", "Ispravak: {}.", "Jammer, ek bedoel {}.", "Перабачце, {}", "Oprostite, mislio sam {}."),
    ],
)
@given(labels=st.permutations("ABCD"))
def test_what_a_later_clause_of_unknown_words_may_replace_is_not_read(frame, correction, labels):
    found = read_action(frame.format(labels[0]) + correction.format(labels[1]), KIDGYM).option
    assert found is None or "ABCD"[found] == labels[1]


@pytest.mark.parametrize(
    "behind",
    [
        "It opens the door of {}.",
        "The lamp beside {} is lit.",
        "The piece fits the hole to the left of {}.",
        "Alternative: {}",
    ],
)
@given(labels=st.permutations("ABCD"))
def test_what_is_said_of_other_options_behind_an_answer_replaces_none(behind, labels):
    found = read_action(f"{labels[0]}\n\n" + behind.format(labels[1]), KIDGYM).option
    assert found is not None and "ABCD"[found] == labels[0]


@pytest.mark.parametrize(
    "form",
    [
        *("Best option: {}\nWorst option: {}", "Richtige Antwort: {}. Verworfene Antwort: {}."),
        *("Rätt svar: {}. Fel svar: {}.", "Rigtigt svar: {}. Forkert svar: {}.", "Riktig svar: {}. Feil svar: {}."),
        *("Oikea vastaus: {}. Väärä vastaus: {}.", "Poprawna odpowiedź: {}. Niepoprawna odpowiedź: {}."),
        *("Správná odpověď: {}. Chybná odpověď: {}.", "Helyes válasz: {}. Hibás válasz: {}."),
        *("Răspuns corect: {}. Răspuns greșit: {}.", "Σωστή απάντηση: {}. Λανθασμένη απάντηση: {}."),
        *("Верный ответ: {}. Ошибочный ответ: {}.", "Правильна відповідь: {}. Хибна відповідь: {}."),
        *("सही उत्तर: {}। गलत उत्तर: {}।", "সঠিক উত্তর: {}। ভুল উত্তর: {}।", "คำตอบที่ถูกต้อง: {} คำตอบที่ผิด: {}"),
        *("Risposta giusta: {}. Risposta errata: {}.", "Jawaban benar: {}. Jawaban salah: {}."),
        *(
            "Final choice: {}. Initial choice: {}.",
            "Top choice: {}. Backup choice: {}.",
            "Answer: {}\n\nCommon mistake: {}",
        ),
    ],
)
@given(labels=st.permutations("ABCD"))
def test_of_a_right_and_a_wrong_answer_the_right_one_is_meant(form, labels):
    found = read_action(form.format(*labels), KIDGYM).option
    assert found is not None and "ABCD"[found] == labels[0]


@pytest.mark.parametrize(
    "form",
    [
        *("{} is wrong and {} is right.", "{} ist falsch und {} ist richtig.", "{} est fausse et {} est correcte."),
        *("{} es incorrecta y {} es correcta.", "{} è sbagliata e {} è giusta.", "{} is fout en {} is juist."),
        *("{} är fel och {} är rätt.", "{} je špatně a {} je správně.", "{} este greșită și {} este corectă."),
        *("Η {} είναι λάθος και η {} είναι σωστή.", "{} خاطئ و {} صحيح.", "{} गलत है और {} सही है।"),
        *("Ik dacht {}, maar het is {}.", "Credeam că e {}, dar răspunsul corect este {}."),
        *("It is tempting to choose {}, but {} is right.", "It's too early to choose {}, so {}."),
        *(
            "A naive solver would choose {}, but {} is correct.",
            "Es ist verlockend, {} zu wählen, aber {} ist richtig.",
        ),
    ],
)
@given(labels=st.permutations("BCD"))
def test_of_what_is_wrong_thought_or_tempting_and_what_is_right_the_latter_is_meant(form, labels):
    found = read_action(form.format(*labels), KIDGYM).option
    assert found is None or "ABCD"[found] == labels[1]


def test_what_is_wrong_in_the_same_clause_is_not_taken():
    assert read_action("A is wrong and B is right.", KIDGYM).option == 1


@pytest.mark.parametrize(
    "form",
    [
        *(
            "Jag väljer inte {}.",
            "Jeg vælger ikke {}.",
            "Nu aleg {}.",
            "Răspunsul nu este {}.",
            "Răspunsul poate fi {}.",
        ),
        *("Δεν επιλέγω {}.", "Не обираю {}.", "Cevap {} değil.", "لا أختار {}.", "{} غير صحيح.", "אינני בוחר {}."),
        *("من {} را انتخاب نمی‌کنم.", "मैं {} नहीं चुनता।", "उत्तर {} नहीं है।", "उत्तर: शायद {}", "উত্তর {} নয়।"),
        *("উত্তর: হয়তো {}", "যদি দরজা খোলা থাকে, উত্তর: {}", "अगर दरवाज़ा खुला है, उत्तर: {}", "คำตอบไม่ใช่ {}"),
        *("คำตอบอาจเป็น {}", "ถ้าประตูเปิด คำตอบคือ {}", "ฉันไม่เลือก {}", "Jawabannya bukan {}.", "هل الجواب {}؟"),
        "Dacă ușa e deschisă, răspunsul este {}.",
    ],
)
@given(label=st.sampled_from("BCD"))
def test_what_is_denied_with_words_for_choosing_is_not_read(form, label):
    assert read_action(form.format(label), KIDGYM).option is None


@pytest.mark.parametrize(
    "form",
    [
        *("Răspuns: {}", "Răspunsul este {}.", "उत्तर: {}", "উত্তর: {}", "คำตอบคือ {}", "Jag väljer {}."),
        *("Jeg vælger {}.", "Valitsen {}.", "Volím {}.", "Aleg {}.", "Επιλέγω {}.", "Обираю {}.", "{} seçiyorum."),
        *("أختار {}.", "אני בוחר {}", "من {} را انتخاب می‌کنم.", "मैं {} चुनता हूँ।", "ฉันเลือก {}", "{} সঠিক।"),
        *("{} är rätt.", "{} er rigtig.", "{} jest poprawna.", "{} je správně.", "{} đúng.", "Cevap {}'dır."),
        *("Ikke A, men {}.", "Не A, а {}.", "Bukan A, melainkan {}."),
    ],
)
@given(label=st.sampled_from("BCD"))
def test_words_for_choosing_of_many_languages_are_known(form, label):
    assert read_action(form.format(label), KIDGYM).option == "ABCD".index(label)


@pytest.mark.parametrize("form", ["Ответ: {}", "Η απάντηση είναι η {}.", "<answer>{}</answer>", "{}", "({})"])
@pytest.mark.parametrize(("letter", "option"), [("А", 0), ("В", 1), ("С", 2), ("Α", 0), ("Β", 1)])
def test_a_letter_that_looks_like_a_label_is_that_label(form, letter, option):
    assert read_action(form.format(letter), KIDGYM).option == option


@pytest.mark.parametrize(
    "reply", ["В комнате пусто.", "С этим не ясно.", "Η πόρτα είναι κλειστή.", "А, Б, В: В", "Ответ: Г"]
)
def test_a_word_or_a_letter_of_another_alphabet_is_no_label(reply):
    assert read_action(reply, KIDGYM).option is None


@pytest.mark.parametrize("form", ["{}", "Answer: {}", "الإجابة: {}", "उत्तर: {}", "คำตอบคือ {}", "<answer>{}</answer>"])
@pytest.mark.parametrize("zero", ["٠", "۰", "०", "০", "๐", "０"])
@given(number=st.integers(1, 8))
def test_digits_of_any_script_are_digits(form, zero, number):
    digit = chr(ord(zero) + number)
    assert read_answer(form.format(digit), list("12345678"), list("12345678")).option == number - 1


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ('{"action_type": "predict", "prediction": "Lupus"}', "Lupus"),
        ('{"action_type": "predict", "value": "Lupus"}', None),
        ('{"type": "test", "name": "X-Ray"}', "X-Ray"),
        ("Type: prediction\nLupus", "Lupus"),
        ('{"type": "predict"}', None),
        ("The type of action: predict.", None),
        ("The mode is unclear.", None),
        ("Type 2 Diabetes", "Type 2 Diabetes"),
        ("I predict type II diabetes.", "Type 2 Diabetes"),
        ("It is type 2.", "Type 2 Diabetes"),
        ("I predict type I diabetes.", None),
        ("I choose safe mode.", "Safe Mode"),
    ],
)
def test_words_for_what_a_field_holds_name_nothing_by_themselves(reply, name):
    assert read_name(reply, ("X-Ray",), ("Type 2 Diabetes", "Lupus", "Safe Mode")).name == name


@pytest.mark.parametrize(
    ("form", "read"),
    [
        *((form, 1) for form in ("Not {} but {}.", "Not {}, but {}.", "No es {} sino {}", "It is not {} but {}.")),
        *((form, 1) for form in ("{} is wrong, {} is right", "{} is wrong; {} is correct.", "{}ではなく{}です。")),
        *(
            (form, 0)
            for form in ("Picture {}", "Answer: image {}", "Candidate #{}.", "Answer: Panel #{}", "Solution: {}")
        ),
        *((form, 0) for form in ("{} is correct, {} is wrong.", "{} is the right answer, not {}.")),
        *(
            (form, None)
            for form in ("There are not {} but {}.", "The row has not {} but {}.", "We need not {} but {} dots.")
        ),
        *(
            (form, None)
            for form in ("{} is needed.", "Not {} but maybe {}.", "Not picture {}.", "Picture {} or picture {}")
        ),
        *((form, None) for form in ("In image {} there are {} stars.", "Panel {} has 2 objects and panel {} has 3.")),
    ],
)
@given(numbers=st.permutations("12345678"))
def test_a_number_is_an_answer_where_it_is_called_one(form, read, numbers):
    found = read_answer(form.format(*numbers), list("12345678"), list("12345678")).option
    assert found == (None if read is None else int(numbers[read]) - 1)


@pytest.mark.parametrize("frame", ["{}", "<answer>{}</answer>"])
@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("The patient has Lupus.", "Lupus"),
        ("The patient suffers from lupus", "Lupus"),
        ("This person has Common Cold", "Common Cold"),
        ("The patient does not have Lupus.", None),
        ("The patient has Lupus or Common Cold", None),
        ("The patient has symptoms of Lupus", None),
        ("If the patient has Lupus, a test will show it", None),
    ],
)
def test_what_the_patient_has_is_the_answer(frame, reply, name):
    assert read_name(frame.format(reply), (), ("Flu", "Lupus", "Common Cold")).name == name


@pytest.mark.parametrize("name", ["Type 1 Diabetes", "Type 3 diabetes", "diabetes type 1"])
def test_a_name_with_another_number_is_another_name(name):
    truths = ("Flu", "Type 2 Diabetes")
    assert read_name(f"<answer>{name}</answer>", (), truths).name is None
    assert read_name("<answer>Diabetes</answer>", (), truths).name == "Type 2 Diabetes"


def test_an_answer_line_before_a_cut_explanation_has_answered():
    assert read_action("**Answer: C**\n\n**Reasoning:** the key is", KIDGYM, cut_off=True).option == 2
    assert read_action("Answer: C", KIDGYM, cut_off=True).option is None


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("<ANSWER> Brain MRI </ANSWER>\n\nOutcome of Brain MRI: normal", "Brain MRI"),
        ("<ANSWER> Brain MRI </ANSWER>\n\nOutcome of Brain MRI: normal\n\n<ANSWER> Asthma </ANSWER>", None),
        ("Outcome of Brain MRI: normal. So <ANSWER> Asthma </ANSWER>", "Asthma"),
        ("<ANSWER> Brain MRI </ANSWER>\nThe outcome of Brain MRI is normal.\n<ANSWER> Asthma </ANSWER>", None),
        ("If high, I would then say <ANSWER> Asthma </ANSWER>", None),
        ("If it is low, I'd say <ANSWER> Asthma </ANSWER>", None),
        ("If high, I would then say <ANSWER> Asthma", None),
        ("If it is high, that rules out Brain Tumor.\n<ANSWER> Asthma </ANSWER>", "Asthma"),
    ],
)
def test_outcomes_that_are_made_up_and_conditions_choose_nothing(reply, name):
    assert read_name(reply, ("Brain MRI", "Chest X-Ray"), ("Brain Tumor", "Asthma")).name == name


WORDS = """
    not nor neither no yes A B C D E , : . ? and or is are the a I prefer to over than as opposed best second wait if but so
    then only left wrong right option label item backpack basket 0 1 2 3 up pick put § <answer> </answer> ( ) 不 是 ✗ ✓ - ->
"""


@given(st.lists(st.sampled_from([*WORDS.split(), "\n"]), max_size=25).map(" ".join), st.booleans())
@example("Not A nor B C", False)
@example("neither red A nor red B C", False)
def test_no_row_of_words_breaks_the_reader(reply, cut_off):
    assert read_action(reply, KIDGYM, cut_off).option in (None, 0, 1, 2, 3)
    assert read_name(reply, ("option A", "label 2"), ("item 3", "basket"), cut=cut_off).name in (
        None,
        *("option A", "label 2", "item 3", "basket"),
    )


COLORS = ("red", "blue", "green", "white", "black")
PLANS = st.integers(2, 5).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=2, max_size=6))
)


@given(PLANS, st.sampled_from([", ", " → ", ", then ", "\n"]))
def test_a_plan_is_read_as_its_first_action_unless_it_goes_back_or_repeats_the_question(drawn, between):
    count, plan = drawn
    choices = Choices(
        tuple(f"press the {name} button" for name in COLORS[:count]), tuple("ABCDE"[:count]), first_of_list=True
    )
    found = read(f"<answer>{between.join('ABCDE'[place] for place in plan)}</answer>", choices)
    goes_back = 1 < len(set(plan)) < len(plan)
    repeats_the_question = count > 2 and plan == list(range(count))
    assert found.option == (None if goes_back or repeats_the_question else plan[0])
