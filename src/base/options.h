// Options declared once: name, default, help. The declaration drives the command line, the MAKAR_*
// environment twin, --help and (through visit) files and documentation.
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
  // Where a value lands. The value it holds when declared is the default.
  using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*>;

  struct Option {
    std::vector<std::string> names;  // "--model", "-m", aliases
    Target target;
    std::string help;
    std::string value;  // the word shown for the value in --help
    bool positional = false;
    bool required = false;
    bool seen = false;
    std::string default_text;
  };

  Options(std::string command, std::string summary, std::string example);

  // Names as "-m --model --checkpoint": the longest first `--name` is the main one.
  Option& add(std::string_view names, Target target, std::string help, std::string value = "");
  Option& positional(std::string name, Target target, std::string help);

  // Reads the environment, then the arguments. A failure is bad usage (exit code 2).
  Status parse(const std::vector<std::string>& arguments);
  bool help_asked() const { return help_; }
  bool given(std::string_view name) const;  // whether it was set, be it to its default
  std::string help() const;
  const std::vector<Option>& all() const { return options_; }

 private:
  Option* find(std::string_view name);
  Status assign(Option& option, const std::string& text, const std::string& shown);

  std::string command_, summary_, example_;
  std::vector<Option> options_;
  bool help_ = false;
};

}  // namespace makar
