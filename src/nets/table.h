// Columns of a CSV file as numbers for a network. A column of numbers is standardised, missing values become
// the mean; any other column is one-hot encoded. The target is a number or a class.
#pragma once
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/record_reader.h"

namespace makar {

struct TableRow {
  std::map<std::string, std::string> fields;
  std::string target;
};
// Rows with the column `target`, which is removed from the fields. A number selects a column of a file
// without a header. Rows without a target are bad.
Result<std::vector<TableRow>> read_table(const std::string& path, const std::string& target, BadRecords& bad);
// Rows for predictions: the column `target` may be missing; then any of `columns` identifies the header.
Result<std::vector<TableRow>> read_table_to_predict(const std::string& path, const std::string& target,
                                                    const std::vector<std::string>& columns, BadRecords& bad);

class TableEncoder {
 public:
  // `classes`: the target is a class even if all its values are numbers.
  static Result<TableEncoder> fit(const std::vector<TableRow>& rows, bool classes);
  size_t width() const;
  bool is_classes() const { return !classes_.empty(); }
  const std::vector<std::string>& classes() const { return classes_; }
  // The numbers of a row; a value that fit() did not see in a one-hot column is encoded as zeros.
  Result<std::vector<float>> encode(const TableRow& row, const std::string& place) const;
  // The target of a row: a class number, or a standardised number.
  Result<float> target(const TableRow& row, const std::string& place) const;
  // A network's output as a number in the unit of the target.
  double number(float output) const {
    return counts_ ? deviation_ * std::exp(output) : target_number(output);
  }
  // A standardised target as a number in its own unit.
  double target_number(float standardised) const { return mean_ + deviation_ * standardised; }
  // Targets are counts: they are divided by their mean, and outputs are logarithms. Fails if a
  // target is negative.
  Status use_counts(const std::vector<TableRow>& rows);
  // The names of the columns if all of them are numeric, else an empty list.
  std::vector<std::string> numeric_columns() const;
  std::vector<std::string> column_names() const;

  Json json() const;
  static Result<TableEncoder> from_json(const Json& json, const std::string& place);

 private:
  struct Column {
    std::string name;
    double mean = 0, deviation = 1;
    std::vector<std::string> values;  // of a one-hot column, one number per value; empty: numeric
  };
  std::vector<Column> columns_;
  std::vector<std::string> classes_;
  double mean_ = 0, deviation_ = 1;  // of a target that is a number
  bool counts_ = false;
};

// The number in a text; nullopt if the text is not a finite number.
std::optional<double> number_in(const std::string& text);

}  // namespace makar
