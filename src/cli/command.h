// The table of commands. A command is one file with one function, listed in commands.cpp.
#pragma once
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace makar {

// Exit codes: 0 success, 1 failure, 2 bad usage.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
  const char* group = "";  // the heading in makar --help
};

// In the order of makar --help.
std::span<const Command> commands();

// Runs the subcommand named by the first argument; without arguments prints help.
int run_subcommand(const std::string& command, const char* summary, const char* example,
                   std::span<const Command> table, const std::vector<std::string>& arguments);

// Two columns, grouped under headings.
void print_commands(std::FILE* out, std::span<const Command> table);

}  // namespace makar
