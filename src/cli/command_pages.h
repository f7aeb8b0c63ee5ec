// The help of every command as data: for man pages, the reference and shell completion.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "cli/command.h"

namespace makar {

struct CommandPage {
  struct Row {
    std::vector<std::string> names;  // "--model", "-m"; or the word of a positional argument
    std::string left, right;         // the two columns of --help
    std::string value;               // the placeholder of the value, such as FILE
    bool positional = false, takes_value = false;
  };
  struct Group {
    std::string heading;
    std::vector<Row> rows;
  };

  std::string command;  // "data world"; empty: makar itself
  std::string summary, usage, example;
  std::vector<Options::Subcommand> subcommands;
  std::vector<Group> groups;

  static CommandPage from(const Options& options);
  static CommandPage from(const std::string& command, const char* summary, const char* example,
                          std::span<const Command> table);
};

// makar itself, then every command, each followed by its subcommands.
std::vector<CommandPage> command_pages();

// While command_pages() runs, a command that runs with --help stores its page here instead of printing it.
// False: print the help.
bool store_page(CommandPage page);
bool collects_pages();  // command_pages() is running

}  // namespace makar
