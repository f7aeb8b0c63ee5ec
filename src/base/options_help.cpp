// The text of --help: options under the headings of their groups, in two columns.
#include <algorithm>

#include "base/options.h"
#include "base/utf8.h"

namespace makar {
namespace {

constexpr size_t kIndent = 2, kGap = 2, kMaxLeftColumns = 28;

// `text` at column `at`, its lines broken at spaces so that none passes `width`; `used` columns of the first
// line are taken.
std::string wrapped(std::string_view text, size_t at, size_t width, size_t used) {
  std::string out(at > used ? at - used : 0, ' ');
  size_t column = std::max(at, used);
  bool line_start = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t needed = count_code_points(word) + (line_start ? 0 : 1);
    if (!line_start && column + needed > width) {
      out += "\n" + std::string(at, ' ');
      column = at, line_start = true;
    }
    if (!line_start) out += ' ', ++column;
    out += word;
    column += count_code_points(word), line_start = false;
  }
  return out + "\n";
}

}  // namespace

std::string Options::Option::left() const {
  if (positional) return names[0];
  std::string brief = "    ";
  for (const auto& name : names)
    if (name.size() == 2) brief = name + ", ";
  const std::string& main = main_name();
  std::string out = main.size() == 2 ? main : brief + main;
  if (!value.empty()) out += " " + value;
  return out;
}

std::string Options::Option::right() const {
  std::string out = help;
  std::string default_line;  // line breaks as \n
  for (const char c : default_text) default_line += c == '\n' ? std::string("\\n") : std::string(1, c);
  if (!default_line.empty()) out += fmt::format(" (default {})", default_line);
  std::vector<std::string> others;
  if (!positional && !position.empty()) others.push_back("argument " + position);
  for (const auto& name : names)
    if (!positional && name != main_name() && name.size() != 2) others.push_back(name);
  if (!others.empty()) out += fmt::format(" [also {}]", fmt::join(others, ", "));
  return out;
}

std::string Options::usage() const {
  std::string usage = "makar " + command_;
  for (const auto& option : options_)
    if (option.required && option.position.empty())
      usage += fmt::format(" {} {}", option.main_name(), option.value);
  for (const auto& option : options_)
    if (!option.position.empty())
      usage += option.required ? " " + option.position : fmt::format(" [{}]", option.position);
  return usage + " [options]";
}

std::vector<std::string> Options::groups() const {
  std::vector<std::string> groups;
  for (const auto& option : options_)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  // One order for all commands, with a command's own groups in the middle.
  const auto rank = [](const std::string& group) {
    constexpr std::string_view kOrder[] = {"Model",    "Data",   "",  // others
                                           "Sampling", "Search", "Limits", "Performance"};
    const auto found = std::find(std::begin(kOrder), std::end(kOrder), group);
    return (found == std::end(kOrder) ? std::begin(kOrder) + 2 : found) - std::begin(kOrder);
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  if (groups.empty()) groups.emplace_back();
  return groups;
}

std::string Options::help(size_t width) const {
  width = std::max<size_t>(width, 40);
  std::string out = wrapped(summary_, 0, width, 0) + "\n" + wrapped("usage: " + usage(), 0, width, 0);
  size_t left = 0;
  for (const auto& option : options_) left = std::max(left, count_code_points(option.left()));
  const size_t at = kIndent + std::min({left, kMaxLeftColumns, width / 2}) + kGap;
  const auto row = [&](const std::string& name, const std::string& text) {
    out += std::string(kIndent, ' ') + name;
    size_t used = kIndent + count_code_points(name);
    if (used + kGap > at) out += "\n", used = 0;
    out += wrapped(text, at, width, used);
  };
  if (!subcommands_.empty()) out += "\nSubcommands\n";
  for (const Subcommand& one : subcommands_) row(one.name, one.summary);
  const std::vector<std::string> headings = groups();
  for (const std::string& group : headings) {
    out += fmt::format("\n{}\n", group.empty() ? "Options" : group);
    for (const auto& option : options_)
      if (option.group == group) row(option.left(), option.right());
    if (&group == &headings.back()) row("-h, --help", "show this text");
  }
  for (const auto& option : options_) {
    if (option.positional || option.value.empty() || !option.main_name().starts_with("--")) continue;
    out += "\n" +
           wrapped(fmt::format("Environment variables set options too, such as {} for {}; the command line "
                               "takes precedence.",
                               environment_name(option.main_name()), option.main_name()),
                   0, width, 0);
    break;
  }
  return out + fmt::format("\nexample: {}\n", example_);
}

}  // namespace makar
