// Options that the tokenizer commands share: which tokenizer, which inputs, special tokens; and input and
// output of text for all commands: lines, whole files, printing, errors as JSON lines.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "text/tokenizer.h"

namespace makar {

struct TokenizerOptions {
  std::string model;               // -m
  std::vector<std::string> words;  // the tokenizer, unless -m gives it, then files
  bool special = false, parse_special = false, forbid_special = false;

  void declare(Options& options);
  void declare_special(Options& options);
  Status resolve();  // removes the tokenizer from the arguments
  EncodeOptions encode_options() const;
};

// Calls f with each batch of complete lines as soon as they arrive from the files, or from standard input
// when there are none; `first` is the number of the first line, from 1. Lines end in \n or \r\n; f returns
// false to stop.
Status each_lines(const std::vector<std::string>& files,
                  const std::function<bool(const std::vector<std::string_view>& lines, size_t first)>& f);
// All files joined, or standard input.
Result<std::string> read_whole(const std::vector<std::string>& files);

// Writes the text to standard output and flushes it; false if that fails.
bool print_out(std::string_view text);

// {"error": {"message", "line"}} and a line break.
std::string error_line(const Error& error, size_t line);

}  // namespace makar
