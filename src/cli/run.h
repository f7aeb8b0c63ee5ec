// What every command does with its options and results: parse, print help, report errors, choose the exit
// code.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace makar {

// Parses; returns an exit code when the command should end here (help asked, bad usage).
std::optional<int> parse_or_exit(Options& options, const std::vector<std::string>& arguments);

// Prints "makar: <error>" to standard error and returns 1.
int report(const Error& error);

}  // namespace makar
