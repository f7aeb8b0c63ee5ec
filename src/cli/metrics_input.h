// Inputs of makar metrics: a value per line, or a column of a table.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

// The values of one item: one text, or several (a list in JSONL).
using Cell = std::vector<std::string>;

// "FILE": one value per line. "FILE:COLUMN": a column of a .jsonl, .json, .csv, .tsv or .conll file;
// "answers.text" is a nested field. Plain, gzip or zstd. Nothing is skipped: a line that cannot be
// read is an error.
Result<std::vector<Cell>> read_cells(const std::string& source);
// One value per item; a list is an error.
Result<std::vector<std::string>> read_values(const std::string& source);
Result<std::vector<double>> read_numbers(const std::string& source);
// Fails if two inputs have different numbers of values.
Status same_count(size_t a, const std::string& source_a, size_t b, const std::string& source_b);

// The numbers of one item: "0.2 0.8", "0.2,0.8" or a list.
Result<std::vector<double>> numbers_of(const Cell& cell, const std::string& place);
std::vector<std::string> comma_list(const std::string& text);
// The positive label: `name` if it is set, otherwise the last of at most two labels in sorted order.
Result<std::string> positive_label(const std::vector<std::string>& labels, const std::string& name);

// The values of all systems, concatenated, and the true values, repeated for each system.
template <class T>
struct Paired {
  std::vector<T> hyp, ref;
};
template <class T, class Read>
Result<Paired<T>> read_paired(const std::vector<std::string>& systems, const std::string& truth,
                              const Read& read) {
  Paired<T> out;
  MAKAR_TRY(const std::vector<T> ref, read(truth));
  for (const std::string& file : systems) {
    MAKAR_TRY(const std::vector<T> hyp, read(file));
    MAKAR_RETURN_IF_ERROR(same_count(ref.size(), truth, hyp.size(), file));
    out.hyp.insert(out.hyp.end(), hyp.begin(), hyp.end());
    out.ref.insert(out.ref.end(), ref.begin(), ref.end());
  }
  return out;
}

}  // namespace makar
