"""The user's own file: what is read, and what is said about what cannot be."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from concrete_dropout.data import CSVData
from concrete_dropout.errors import UserError

ROWS = 40


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    def write(columns: dict[str, list[object]], name: str = "table.csv", separator: str = ",") -> Path:
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path

    return write


def numeric_columns(rows: int = ROWS) -> dict[str, list[object]]:
    """Every value tells its row."""
    return {
        "age": [float(row) for row in range(rows)],
        "size": [100.5 + row for row in range(rows)],
        "price": [3.0 * row for row in range(rows)],
    }


def mixed_columns() -> dict[str, list[object]]:
    return {**numeric_columns(), "colour": [("red", "green", "blue")[row % 3] for row in range(ROWS)]}


def changed(columns: dict[str, list[object]], name: str, row: int, value: object) -> dict[str, list[object]]:
    return {**columns, name: [value if r == row else v for r, v in enumerate(columns[name])]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_parts_are_disjoint_and_complete(write, separator):
    data = CSVData(write(numeric_columns(), separator=separator), target="price")
    tables = data.tables
    assert (len(tables.train), len(tables.val), len(tables.test)) == (32, 4, 4)
    assert (tables.feature_names, tables.target_names) == (("age", "size"), ("price",))
    ages = [age for part in tables.parts().values() for age in part.x[:, 0]]
    assert sorted(ages) == list(range(ROWS))
    for part in tables.parts().values():
        assert np.array_equal(part.x[:, 1], part.x[:, 0] + 100.5)
        assert np.array_equal(part.y[:, 0], 3 * part.x[:, 0])


def test_parts_follow_the_seed(write):
    path = write(numeric_columns())

    def rows(seed: int) -> list[float]:
        return CSVData(path, "price", seed=seed).tables.test.x[:, 0].tolist()

    assert rows(0) == rows(0)
    assert rows(0) != rows(1)


def test_chosen_columns_and_several_targets(write):
    data = CSVData(write(mixed_columns()), target=["price", "size"], features=["age"])
    assert data.spec.target_names == ("price", "size")
    assert data.spec.feature_names == ("age",)
    assert data.tensors("train")[1].shape == (32, 2)


def test_parts_can_be_left_out(write):
    tables = CSVData(write(numeric_columns()), "price", val_fraction=0, test_fraction=0).tables
    assert tables.val is None
    assert tables.test is None
    assert len(tables.train) == ROWS


def test_a_file_of_test_rows(write):
    path, test_path = write(mixed_columns()), write(mixed_columns(), name="test.csv")
    tables = CSVData(path, "price", test_path=test_path, test_fraction=0.5).tables
    assert (len(tables.train), len(tables.val), len(tables.test)) == (36, 4, ROWS)
    assert tables.test.x[:, 0].tolist() == list(range(ROWS))


def test_a_byte_order_mark_quotes_blank_lines_and_spaces(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f'{row} , "{row}.5",{row}e0\r\n\r\n' for row in range(10))
    path.write_bytes(b"\xef\xbb\xbf" + b' a ,"b, or c", y \r\n' + rows.encode())
    tables = CSVData(path, "y", val_fraction=0, test_fraction=0).tables
    assert tables.feature_names == ("a", "b, or c")
    assert tables.train.x[3].tolist() == [3, 3.5]


# Categories


def test_categories_become_columns(write):
    data = CSVData(write(mixed_columns()), "price", val_fraction=0, test_fraction=0)
    tables = data.tables
    assert tables.feature_names == ("age", "size", "colour=blue", "colour=green", "colour=red")
    expected = [[row % 3 == 2, row % 3 == 1, row % 3 == 0] for row in range(ROWS)]
    assert np.array_equal(tables.train.x[:, 2:], np.array(expected, dtype=float))
    assert data.encoder.outputs == tables.feature_names


def test_truth_values_are_categories(write):
    columns = {**numeric_columns(), "sold": [row % 2 == 0 for row in range(ROWS)]}
    names = CSVData(write(columns), "price").spec.feature_names
    assert names == ("age", "size", "sold=False", "sold=True")


def test_categories_that_the_training_part_lacks_are_zeros(write, caplog):
    test_path = write(changed(mixed_columns(), "colour", 5, "mauve"), name="test.csv")
    data = CSVData(write(mixed_columns()), "price", test_path=test_path)
    with caplog.at_level(logging.WARNING):
        tables = data.tables
    assert tables.test.x[5, 2:].tolist() == [0, 0, 0]
    assert tables.test.x[:, 2:].sum() == ROWS - 1
    assert "'colour': categories that the training part does not have are encoded as zeros: mauve 1" in caplog.text


def test_categories_can_be_refused(write):
    with pytest.raises(UserError, match=r"'colour' .*has text \('blue' \.\.\.\).*data\.categorical=onehot"):
        CSVData(write(mixed_columns()), "price", categorical="error").setup()


def test_identifiers_are_refused(write):
    columns = {**numeric_columns(80), "id": [f"customer {row}" for row in range(80)]}
    with pytest.raises(UserError, match=r"'id' .*64 categories .*looks like an identifier.*data\.features"):
        CSVData(write(columns), "price").setup()
    assert CSVData(write(columns), "price", features=["age"]).spec.num_inputs == 1


def test_fifty_categories_are_accepted(write):
    columns = {**numeric_columns(100), "kind": [f"k{row % 50}" for row in range(100)]}
    assert CSVData(write(columns), "price", val_fraction=0, test_fraction=0).spec.num_inputs == 52


def test_a_slip_in_a_column_of_numbers_is_no_category(write):
    with pytest.raises(UserError, match=r"'age' .*has numbers, but '12x' in line 14 \(1 of 40 values"):
        CSVData(write(changed(numeric_columns(), "age", 12, "12x")), "price").setup()


def test_digits_with_underscores_are_no_numbers(write):
    with pytest.raises(UserError, match=r"'age' .*has numbers, but '1_000' in line 2"):
        CSVData(write(changed(numeric_columns(), "age", 0, "1_000")), "price").setup()


def test_decimal_commas_are_named(write):
    columns = {**numeric_columns(), "age": [f"{row},5" for row in range(ROWS)]}
    with pytest.raises(UserError, match=r"'age' .*decimal commas \('0,5', line 2\)"):
        CSVData(write(columns, separator=";"), "price").setup()


# Missing values


@pytest.mark.parametrize("text", ["", "NA", "nan", "?", " null "])
def test_missing_values_are_counted_and_refused(write, text):
    columns = changed(changed(mixed_columns(), "age", 3, text), "colour", 4, text)
    with pytest.raises(
        UserError, match=r"misses values: age 1, colour 1 \(of 40 rows, the first in line 5\).*drop or mean"
    ):
        CSVData(write(columns), "price").setup()


def test_missing_values_in_unused_columns_do_not_matter(write):
    data = CSVData(write(changed(mixed_columns(), "colour", 4, "")), "price", features=["age"])
    assert data.spec.num_train == 32


def test_rows_with_missing_values_can_be_dropped(write, caplog):
    columns = changed(changed(mixed_columns(), "age", 3, ""), "price", 4, "")
    with caplog.at_level(logging.WARNING):
        tables = CSVData(write(columns), "price", missing="drop", val_fraction=0, test_fraction=0).tables
    assert tables.train.x[:5, 1].tolist() == [100.5, 101.5, 102.5, 105.5, 106.5]
    assert "missing values among 40 rows: age 1, price 1" in caplog.text
    assert "2 of 40 rows dropped" in caplog.text


def test_missing_values_can_be_the_mean_of_the_training_part(write):
    columns = mixed_columns()
    for row in (0, 7, 20):
        columns = changed(columns, "age", row, "")
    columns = changed(columns, "colour", 7, "")
    data = CSVData(write(columns), "price", missing="mean", val_fraction=0.3, test_fraction=0.3)
    tables = data.tables
    trained = tables.train.y[:, 0] / 3  # the row numbers
    mean = np.mean([row for row in trained if row not in (0, 7, 20)])
    for part in tables.parts().values():
        for row, x in zip(part.y[:, 0] / 3, part.x, strict=True):
            assert x[0] == pytest.approx(mean if row in (0, 7, 20) else row)
            assert x[2:].sum() == (0 if row == 7 else 1)


def test_a_missing_target_is_not_made_up(write):
    with pytest.raises(UserError, match=r"misses values: price 1 .*data\.missing=drop, which"):
        CSVData(write(changed(numeric_columns(), "price", 3, "")), "price", missing="mean").setup()


def test_nothing_left_after_dropping(write):
    columns = {**numeric_columns(), "age": ROWS * [""]}
    with pytest.raises(UserError, match=r"data\.missing=drop leaves no rows"):
        CSVData(write(columns), "price", missing="drop").setup()
    with pytest.raises(UserError, match=r"'age' .*no values in the training part"):
        CSVData(write(columns), "price", missing="mean").setup()


# Values


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("column", ["age", "price"])
def test_infinities_are_refused_by_column_and_line(write, text, column):
    with pytest.raises(UserError, match=rf"Column '{column}' .*, line 5: '{text}' is not finite"):
        CSVData(write(changed(numeric_columns(), column, 3, text)), "price", val_fraction=0, test_fraction=0).setup()


def test_constant_features_are_kept_as_zeros(write, caplog):
    columns = {**numeric_columns(), "year": ROWS * [2020.1]}
    data = CSVData(write(columns), "price")
    with caplog.at_level(logging.WARNING):
        data.setup()
    assert "kept as columns of zeros: year" in caplog.text
    assert not data.tensors("train")[0][:, 2].any()


def test_a_constant_target_is_refused(write):
    with pytest.raises(UserError, match=r"data\.target: column 'price' is 5 in every training row"):
        CSVData(write({**numeric_columns(), "price": ROWS * [5]}), "price").setup()


def test_a_target_of_text_is_refused(write):
    with pytest.raises(UserError, match=r"data\.target: column 'colour' .*has text; regression needs numbers"):
        CSVData(write(mixed_columns()), "colour").setup()


def test_text_in_a_numeric_column_of_the_test_file(write):
    test_path = write(changed(numeric_columns(), "age", 0, "old"), name="test.csv")
    with pytest.raises(UserError, match=r"'age' of .*test\.csv, line 2: 'old' is not a number"):
        CSVData(write(numeric_columns()), "price", test_path=test_path).setup()


# Names and settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"target": "prise"},
            r"data\.target: .* has no column 'prise'\. Did you mean price\? Its columns are age, size",
        ),
        ({"target": "Price"}, r"Did you mean price\?"),
        ({"features": ["age", "sice"]}, r"data\.features: .*'sice'\. Did you mean .*size"),
        ({"features": ["age", "price"]}, r"data\.features and data\.target both name price"),
        ({"features": ["age", "age"]}, r"data\.features=.* names a column twice"),
        ({"features": []}, r"data\.features=\[\] must name a column"),
        ({"target": None}, r"data\.target=None must name a column"),
        ({"target": ["age", "size", "price"]}, r"no column besides the targets"),
        (
            {"categorical": "one-hot"},
            r"data\.categorical='one-hot' is not one of onehot, error\. Did you mean onehot\?",
        ),
        ({"missing": "median"}, r"data\.missing='median' is not one of error, drop, mean"),
        ({"val_fraction": 1.5}, r"data\.val_fraction=1\.5 must be a number from 0"),
        ({"test_fraction": "a"}, r"data\.test_fraction='a'"),
        (
            {"val_fraction": 0.5, "test_fraction": 0.5},
            r"40 rows, of which data\.val_fraction=0\.5 takes 20 and data\.test",
        ),
        ({"batch_size": 0}, r"data\.batch_size=0"),
    ],
)
def test_wrong_settings_are_named(write, settings, message):
    with pytest.raises(UserError, match=message):
        CSVData(**{"path": write(numeric_columns()), "target": "price", **settings}).setup()


def test_too_few_rows(write):
    with pytest.raises(UserError, match=r"has 3 rows.*at least 2 must remain for training.*lower the fractions"):
        CSVData(write(numeric_columns(3)), "price").setup()


def test_a_column_name_that_looks_like_a_number(write):
    columns = {**numeric_columns(), "2020": list(range(ROWS))}
    assert CSVData(write(columns), target=2020).spec.target_names == ("2020",)  # type: ignore[arg-type]


def test_the_test_file_must_have_the_columns(write):
    columns = numeric_columns()
    del columns["size"]
    with pytest.raises(UserError, match=r"data\.test_path: .*test\.csv has no column 'size'"):
        CSVData(write(numeric_columns()), "price", test_path=write(columns, name="test.csv")).setup()


# Files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,y\n", "has a line of column names, but no rows"),
        (b"a,y\n1,2\n1,2,3\n", "line 3: 3 fields, but the first line names 2 columns"),
        (b"a,y\n1,2\n1\n", "line 3: 1 fields"),
        (b"a b y\n1 2 3\n", r"has one column only, 'a b y'\. Separate columns by"),
        (b"1.5,2,3\n1,2,3\n", r"first line of .* has numbers \(1\.5, 2, 3\)"),
        (b"a,b,a,y\n1,2,3,4\n", "several columns called a"),
        (b",a,y\n0,1,2\n", "column 1 of .* has no name.*index=False"),
        (b"a,y,\n0,1,\n", "column 3 of .* has no name.*a comma at the end of each line"),
        (b"PK\x03\x04rest", "is not a CSV file, but an Excel workbook"),
        (b"\xff\xfea\x00", "UTF-16"),
        (b"a,y\n1,\x00\n", "binary content"),
        (b"a,y\n1,2\ncaf\xe9,3\n", "line 3: byte 0xe9 is not UTF-8.*iconv"),
        (b'a,y\n1,"2\n3,4\n', r"line \d: .*Check the quotation marks"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"data\.path: .*{message}"):
        CSVData(path, "y").setup()


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(UserError, match=r"data\.path: there is no file .*nowhere\.csv"):
        CSVData(tmp_path / "nowhere.csv", "y").setup()
    with pytest.raises(UserError, match=r"data\.path: .* cannot be read \(Is a directory\)"):
        CSVData(tmp_path, "y").setup()
