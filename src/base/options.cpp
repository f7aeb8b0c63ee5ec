#include "base/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

std::string text_of(const Options::Target& target) {
  struct Visitor {
    std::string operator()(bool* v) const { return *v ? "on" : ""; }
    std::string operator()(int64_t* v) const { return std::to_string(*v); }
    std::string operator()(double* v) const { return fmt::format("{}", *v); }
    std::string operator()(std::string* v) const { return *v; }
    std::string operator()(std::vector<std::string>* v) const {
      return fmt::format("{}", fmt::join(*v, ","));
    }
  };
  return std::visit(Visitor{}, target);
}

template <class T>
bool parse_number(const std::string& text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

bool takes_many(const Options::Option& option) {
  return std::holds_alternative<std::vector<std::string>*>(option.target);
}

}  // namespace

std::string environment_name(std::string_view flag) {
  std::string name = "MAKAR_";
  for (const char c : flag.substr(2))
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

const std::string& Options::Option::main_name() const {
  for (const auto& name : names)
    if (name.starts_with("--")) return name;
  return names.front();
}

Options::Options(std::string_view command, std::string_view summary, std::string_view example)
    : command_(command), summary_(summary), example_(example) {}

void Options::group(std::string_view name) { group_ = name; }

void Options::subcommand(std::string_view name, std::string_view summary) {
  subcommands_.push_back({std::string(name), std::string(summary)});
}

Options::Option& Options::add(std::string_view names, Target target, std::string_view help,
                              std::string_view value) {
  Option option;
  std::istringstream words{std::string(names)};
  for (std::string word; words >> word;) option.names.push_back(word);
  option.target = target;
  option.help = help;
  option.value = value;
  option.default_text = text_of(target);
  option.group = group_;
  return options_.emplace_back(std::move(option));
}

Options::Option& Options::positional(std::string_view name, Target target, std::string_view help) {
  Option option;
  option.names = {std::string(name)};
  option.target = target;
  option.help = help;
  option.positional = option.required = true;
  option.group = group_;
  option.position = name;
  return options_.emplace_back(std::move(option));
}

Options::Option* Options::find(std::string_view name) {
  for (auto& option : options_)
    if (!option.positional && std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return &option;
  return nullptr;
}

Status Options::assign(Option& option, const std::string& text, const std::string& name) {
  option.seen = true;
  const auto& choices = option.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
    return error_at(name, "unknown value {}{}; expected one of: {}", quote(text), did_you_mean(text, choices),
                    fmt::join(choices, ", "));
  if (auto** v = std::get_if<bool*>(&option.target)) {
    if (text == "1" || text == "true" || text == "on" || text == "yes") return **v = true, Done{};
    if (text == "0" || text == "false" || text == "off" || text == "no") return **v = false, Done{};
    return error_at(name, "expects on or off, got '{}'", text);
  }
  if (auto** v = std::get_if<int64_t*>(&option.target)) {
    if (!parse_number(text, **v)) return error_at(name, "expects an integer, got '{}'", text);
  } else if (auto** d = std::get_if<double*>(&option.target)) {
    if (!parse_number(text, **d)) return error_at(name, "expects a number, got '{}'", text);
  } else if (auto** s = std::get_if<std::string*>(&option.target)) {
    **s = text;
  } else {
    std::get<std::vector<std::string>*>(option.target)->push_back(text);
  }
  return Done{};
}

Status Options::read_environment() {
  for (auto& option : options_) {
    if (option.positional) continue;
    for (const std::string& name : option.names) {
      if (!name.starts_with("--")) continue;
      const char* value = std::getenv(environment_name(name).c_str());
      if (!value) continue;
      MAKAR_RETURN_IF_ERROR(assign(option, value, environment_name(name)));
      break;
    }
  }
  return Done{};
}

Status Options::assign_words(const std::vector<std::string>& words, const std::vector<const Option*>& flags) {
  std::vector<Option*> by_position;
  for (auto& option : options_)
    if (!option.position.empty() && std::find(flags.begin(), flags.end(), &option) == flags.end())
      by_position.push_back(&option);
  // If there are fewer arguments than positions, options that the environment sets are skipped.
  if (words.size() < by_position.size()) std::erase_if(by_position, [](const Option* o) { return o->seen; });
  size_t next = 0;
  for (const std::string& word : words) {
    if (next >= by_position.size()) return error_at("makar " + command_, "unexpected argument '{}'", word);
    Option& option = *by_position[next];
    MAKAR_RETURN_IF_ERROR(assign(option, word, option.position));
    if (!takes_many(option)) ++next;
  }
  return Done{};
}

Status Options::parse(const std::vector<std::string>& arguments) {
  MAKAR_RETURN_IF_ERROR(read_environment());
  std::vector<std::string> words;
  std::vector<const Option*> flags;
  bool only_words = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    if (!only_words && (word == "--help" || word == "-h")) return help_ = true, Done{};
    if (!only_words && word == "--") {
      only_words = true;
      continue;
    }
    const bool is_flag = !only_words && word.size() > 1 && word[0] == '-' &&
                         !std::isdigit(static_cast<unsigned char>(word[1]));
    if (!is_flag) {
      words.push_back(std::move(word));
      continue;
    }
    std::string value;
    bool has_value = false;
    if (const auto equals = word.find('='); equals != std::string::npos && word.starts_with("--")) {
      value = word.substr(equals + 1), word = word.substr(0, equals), has_value = true;
    }
    Option* option = find(word);
    if (!option) {
      std::vector<std::string> known;
      for (const auto& o : options_) known.insert(known.end(), o.names.begin(), o.names.end());
      return error_at("makar " + command_, "unknown option '{}'{} (makar {} --help lists the options)", word,
                      did_you_mean(word, known), command_);
    }
    if (!has_value && std::holds_alternative<bool*>(option->target)) {
      value = "on";
    } else if (!has_value) {
      if (i + 1 >= arguments.size()) return error_at(word, "expects a value");
      value = arguments[++i];
    }
    MAKAR_RETURN_IF_ERROR(assign(*option, value, word));
    flags.push_back(option);
  }
  MAKAR_RETURN_IF_ERROR(assign_words(words, flags));
  for (const auto& option : options_)
    if (option.required && !option.seen)
      return error_at("makar " + command_, "{} is missing; try: {}",
                      option.position.empty() ? option.main_name() : option.position, example_);
  return Done{};
}

bool Options::given(std::string_view name) const {
  for (const Option& option : options_)
    for (const std::string& one : option.names)
      if (one == name) return option.seen;
  return false;
}

}  // namespace makar
