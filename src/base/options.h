// Options declared once: name, default, help, group. The declaration drives the command line, the MAKAR_*
// environment variables, --help and, through all(), recipes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace makar {

class Options {
 public:
  // Where a value is stored. Its value at declaration is the default.
  using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*>;

  struct Option {
    std::vector<std::string> names;  // "--model", "-m", aliases; or the placeholder of a positional argument
    Target target;
    std::string help;
    std::string value;  // placeholder of the value in --help
    bool positional = false;
    bool required = false;
    bool seen = false;  // set on the command line or in the environment
    std::string default_text;
    std::string group;                 // the heading in --help
    std::vector<std::string> choices;  // the accepted values; empty: any
    std::string
        position;  // placeholder in the usage line if the option is accepted by position too; else empty

    // The first long name, shown first in --help. Each long name has an environment variable.
    const std::string& main_name() const;
    // The two columns of --help: "-m, --model PATH", and the help with the default and the synonyms.
    std::string left() const;
    std::string right() const;
  };

  struct Subcommand {
    std::string name, summary;
  };

  Options(std::string_view command, std::string_view summary, std::string_view example);

  // The heading of the options declared from here on.
  void group(std::string_view name);
  // Names as "-m --model --checkpoint": the first `--name` is the main one.
  Option& add(std::string_view names, Target target, std::string_view help, std::string_view value = "");
  Option& positional(std::string_view name, Target target, std::string_view help);

  // Reads the environment, then the arguments. A failure is bad usage (exit code 2).
  Status parse(const std::vector<std::string>& arguments);
  bool help_requested() const { return help_; }
  // Listed in --help; the command dispatches it itself.
  void subcommand(std::string_view name, std::string_view summary);
  bool given(std::string_view name) const;  // whether it was set, even to its default
  // The text of --help, wrapped to `width` columns.
  std::string help(size_t width = 80) const;
  const std::vector<Option>& all() const { return options_; }
  // The headings in the order of --help.
  std::vector<std::string> groups() const;
  // The line "usage: ...", without "usage: ".
  std::string usage() const;
  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  const std::string& example() const { return example_; }
  const std::vector<Subcommand>& subcommands() const { return subcommands_; }

 private:
  Option* find(std::string_view name);
  Status assign(Option& option, const std::string& text, const std::string& name);
  Status read_environment();
  // Assigns positional arguments in the order of declaration; skips options that were given as flags.
  Status assign_words(const std::vector<std::string>& words, const std::vector<const Option*>& flags);

  std::string command_, summary_, example_, group_;
  std::vector<Option> options_;
  std::vector<Subcommand> subcommands_;
  bool help_ = false;
};

// MAKAR_TOP_K for --top-k.
std::string environment_name(std::string_view flag);

}  // namespace makar
