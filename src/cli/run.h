// Shared by all commands: parsing options, printing help, reporting errors, exit codes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace makar {

// Parses the arguments; returns an exit code if the command should end here (help, bad usage).
std::optional<int> parse_or_exit(Options& options, const std::vector<std::string>& arguments);

// Width for wrapping text: COLUMNS, or the terminal's width, or 80.
size_t terminal_width();

// Prints "makar: warning: <text>" to standard error.
void warn(const std::string& text);
// Prints "makar: <error>" to standard error and returns 1.
int report(const Error& error);

}  // namespace makar
