// The table of commands. A command is one file with one function, listed in commands.cpp.
#pragma once
#include <string>
#include <vector>

namespace makar {

// Exit codes: 0 success, 1 failure, 2 bad usage.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
};

const std::vector<Command>& commands();

}  // namespace makar
