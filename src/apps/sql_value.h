// Keys of SQL values, for comparing the results of statements: 3 and 3.0 are equal; numbers, texts, blobs and
// NULL differ from each other. A row's key is those of its values, one after another.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace makar {

void add_null_key(std::string& row);
void add_integer_key(std::string& row, int64_t value);
// By 12 digits: sums in another order may differ in the last ones.
void add_real_key(std::string& row, double value);
void add_text_key(std::string& row, std::string_view bytes);
void add_blob_key(std::string& row, std::string_view bytes);
// A value whose type is not known: a number if it is written as PostgreSQL writes numbers, else a text.
void add_printed_key(std::string& row, std::string_view bytes);

}  // namespace makar
