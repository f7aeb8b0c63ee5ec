// Input and output of text for all commands: lines, whole files, printing, errors as JSON lines.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

// Calls f with each batch of complete lines as soon as they arrive from the files, or from standard input
// when there are none; `first` is the number of the first line, counted from 1 over all files. Lines end in
// \n or \r\n; f returns false to stop.
Status each_line_batch(
    const std::vector<std::string>& files,
    const std::function<bool(const std::vector<std::string_view>& lines, size_t first)>& f);
// All files joined, or standard input.
Result<std::string> read_whole(const std::vector<std::string>& files);

// Writes the text to standard output and flushes it; false if that fails.
bool print_out(std::string_view text);

// {"error": {"message", "line"}} and a line break.
std::string error_line(const Error& error, size_t line);

}  // namespace makar
