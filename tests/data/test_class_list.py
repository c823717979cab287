"""Class lists as users write them."""

from __future__ import annotations

import pytest

from concrete_dropout.data.class_list import ClassEntry, class_labels, default_colour, entries_of, read_class_list
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("road\nsky\n", [("road", 0, None), ("sky", 1, None)]),
        ("\ufeff# ours\n\n road \nsky", [("road", 0, None), ("sky", 1, None)]),
        ("road,7\nsky, 11\n", [("road", 7, None), ("sky", 11, None)]),
        ("road,128,64,128\nsky,1,2,3\n", [("road", 0, (128, 64, 128)), ("sky", 1, (1, 2, 3))]),
        ("name,label,r,g,b\nroad,7,128,64,128\n", [("road", 7, (128, 64, 128))]),
        ("Name,Label\nroad,7\n", [("road", 7, None)]),
        ("name\nroad\n", [("road", 0, None)]),
        ('"traffic light, red",3\n', [("traffic light, red", 3, None)]),
    ],
)
def test_files(tmp_path, text, expected):
    path = tmp_path / "classes.csv"
    path.write_text(text, encoding="utf-8")
    assert [(entry.name, entry.label, entry.colour) for entry in read_class_list(path)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\n# nothing\n", r"The class list .*classes\.csv is empty"),
        (b"\xff\xfe\x00", r"classes\.csv cannot be read \(not a text file\)"),
        (None, r"classes\.csv cannot be read \(No such file"),
        (b"road,1,2\n", r"classes\.csv, line 1: 3 values\. A class is a name, optionally"),
        (b"road,1\nsky\n", r"line 2: 'sky' should be name,label"),
        (b"road,1\n,2\n", r"line 2: ',2' should be name,label"),
        (b"road,x\n", r"line 1: the label 'x' must be a whole number from 0 to 65535"),
        (b"road,-1\n", r"line 1: the label '-1'"),
        (b"road,1,2,256\n", r"line 1: the b '256' must be a whole number from 0 to 255"),
    ],
)
def test_faulty_files(tmp_path, text, message):
    path = tmp_path / "classes.csv"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(UserError, match=message):
        read_class_list(path)


def test_labels_of_names():
    labels = class_labels(entries_of(["road", "sky"]), [255], "data.classes")
    assert labels.names == ("road", "sky")
    assert labels.classes == {0: 0, 1: 1, 255: VOID}
    assert labels.colour_classes == {}
    assert labels.colours == (default_colour(0), default_colour(1))


def test_entries_that_are_no_classes():
    entries = [ClassEntry("other", 0, (0, 0, 0)), ClassEntry("road", 5, (9, 9, 9)), ClassEntry("sky", 6, (8, 8, 8))]
    labels = class_labels(entries, ["other"], "classes.csv")
    assert labels.names == ("road", "sky")
    assert labels.colours == ((9, 9, 9), (8, 8, 8))
    assert labels.classes == {0: VOID, 5: 0, 6: 1}
    assert labels.colour_classes == {(0, 0, 0): VOID, (9, 9, 9): 0, (8, 8, 8): 1}


@pytest.mark.parametrize(
    ("entries", "void", "message"),
    [
        (entries_of(["a", "b", "a"]), [], "classes has the name a twice"),
        ([ClassEntry("a", 1), ClassEntry("b", 1)], [], "classes has the label 1 twice"),
        ([ClassEntry("a", 0, (1, 1, 1)), ClassEntry("b", 1, (1, 1, 1))], [], r"the colour \(1, 1, 1\) twice"),
        ([ClassEntry("a", 0, (1, 1, 1)), ClassEntry("b", 1)], [], "gives some classes a colour and others none"),
        (entries_of(["a"]), [], "classes has 1 classes; segmentation needs 2 to 254"),
        (entries_of(["a", "b"]), ["b"], "classes has 1 classes"),
        (entries_of([str(number) for number in range(255)]), [], "has 255 classes"),
        (
            entries_of(["road", "sky"]),
            ["raod"],
            r"data\.void names 'raod', which classes does not have\. Did you mean road",
        ),
        (entries_of(["road", "sky"]), [1], r"1 is a label of the class 'sky' in classes, and in data\.void as well"),
    ],
)
def test_lists_that_make_no_sense(entries, void, message):
    with pytest.raises(UserError, match=message):
        class_labels(entries, void, "classes")


def test_default_colours_differ():
    assert len({default_colour(index) for index in range(60)}) == 60
