#include "cli/command_pages.h"

#include <fmt/format.h>

namespace makar {
namespace {

// Where store_page() puts a page; null unless command_pages() runs.
std::optional<CommandPage>* next_page = nullptr;

// Runs the command at `path` with --help to get its page.
CommandPage page_of(const Command& command, const std::vector<std::string>& path) {
  std::optional<CommandPage> page;
  next_page = &page;
  std::vector<std::string> arguments(path.begin() + 1, path.end());
  arguments.emplace_back("--help");
  command.run(arguments);
  next_page = nullptr;
  if (page) return std::move(*page);
  CommandPage plain;  // a command without options
  plain.command = command.name;
  plain.summary = std::string(command.summary) + ".";
  plain.usage = fmt::format("makar {}", command.name);
  return plain;
}

// Adds the page of the command at `path`, then those of its subcommands.
void add_pages(std::vector<CommandPage>& out, const Command& command, const std::vector<std::string>& path) {
  out.push_back(page_of(command, path));
  const std::vector<Options::Subcommand> subcommands = out.back().subcommands;
  for (const auto& one : subcommands) {
    std::vector<std::string> subcommand = path;
    subcommand.push_back(one.name);
    const size_t at = out.size();
    add_pages(out, command, subcommand);
    out[at].command = fmt::format("{}", fmt::join(subcommand, " "));
  }
}

}  // namespace

CommandPage CommandPage::from(const Options& options) {
  CommandPage page;
  page.command = options.command(), page.summary = options.summary();
  page.usage = options.usage(), page.example = options.example();
  page.subcommands = options.subcommands();
  for (const std::string& heading : options.groups()) {
    Group group{heading.empty() ? "Options" : heading, {}};
    for (const auto& option : options.all())
      if (option.group == heading)
        group.rows.push_back({option.names, option.left(), option.right(), option.value, option.positional,
                              !option.positional && !std::holds_alternative<bool*>(option.target)});
    if (!group.rows.empty()) page.groups.push_back(std::move(group));
  }
  return page;
}

CommandPage CommandPage::from(const std::string& command, const char* summary, const char* example,
                              std::span<const Command> table) {
  CommandPage page;
  page.command = command, page.summary = summary, page.example = example;
  page.usage = fmt::format("makar {}SUBCOMMAND [options]", command.empty() ? "" : command + " ");
  for (const Command& one : table) page.subcommands.push_back({one.name, one.summary});
  return page;
}

std::vector<CommandPage> command_pages() {
  std::vector<CommandPage> out = {CommandPage::from("", "Train, convert, run and serve language models.",
                                                    "makar generate -m MODEL \"Once upon a time\"",
                                                    commands())};
  for (const Command& command : commands()) add_pages(out, command, {command.name});
  return out;
}

bool collects_pages() { return next_page != nullptr; }

bool store_page(CommandPage page) {
  if (!next_page) return false;
  *next_page = std::move(page);
  return true;
}

}  // namespace makar
