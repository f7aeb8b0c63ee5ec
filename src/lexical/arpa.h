// ARPA files of n-gram models, as SRILM, KenLM and IRSTLM write them.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "data/line_reader.h"
#include "lexical/ngram_model.h"

namespace makar {

// Fails unless the header's counts are right, the first n - 1 words of every n-gram are listed as an n-gram,
// all numbers are finite and probabilities are at most 1. Errors name the line.
Result<NgramModel> read_arpa(LineReader lines);
Result<NgramModel> load_arpa(const std::string& path);

// Numbers are written with enough digits to read back the same bits. `write` receives the file in consecutive
// pieces.
Status write_arpa(const NgramModel& model, const std::function<Status(std::string_view)>& write);
Status save_arpa(const NgramModel& model, const std::string& path);

}  // namespace makar
