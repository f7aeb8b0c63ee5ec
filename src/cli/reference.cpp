// makar reference: the options of all commands as man pages, Markdown or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/command_pages.h"
#include "cli/run.h"

namespace makar {
namespace {

std::string full_name(const CommandPage& page, const char* separator = " ") {
  std::string out = page.command.empty() ? "makar" : "makar " + page.command;
  for (size_t at = out.find(' '); at != std::string::npos; at = out.find(' ', at + 1))
    out.replace(at, 1, separator);
  return out;
}

// roff: backslashes and dashes are escaped, and no text line begins with a control character.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string man_page(const CommandPage& page) {
  std::string title = full_name(page, "-");
  std::string upper = title;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out =
      fmt::format(".TH \"{}\" 1 \"\" \"makar {}\" \"makar\"\n.SH NAME\n{} \\- {}\n", upper, kMakarVersion,
                  roff(title), roff(page.summary.substr(0, page.summary.find('.'))));
  out += fmt::format(".SH SYNOPSIS\n.B {}\n.SH DESCRIPTION\n{}\n", roff(page.usage), roff(page.summary));
  if (!page.subcommands.empty()) out += ".SH SUBCOMMANDS\n";
  for (const auto& one : page.subcommands)
    out += fmt::format(".TP\n.B {}\n{}\n", roff(one.name), roff(one.summary));
  for (const auto& group : page.groups) {
    std::string heading = group.heading;
    for (char& c : heading) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    out += fmt::format(".SH \"{}\"\n", roff(heading));
    for (const auto& row : group.rows) {
      const size_t at = row.left.find_first_not_of(' ');
      out += fmt::format(".TP\n.B {}\n{}\n", roff(std::string_view(row.left).substr(at)), roff(row.right));
    }
  }
  if (!page.example.empty()) out += fmt::format(".SH EXAMPLE\n.nf\n{}\n.fi\n", roff(page.example));
  out += ".SH \"SEE ALSO\"\n";
  const std::string parent = page.command.empty() ? "" : page.command.substr(0, page.command.rfind(' '));
  std::vector<std::string> others;
  if (!page.command.empty()) others.push_back(parent == page.command ? "makar" : "makar " + parent);
  for (const auto& one : page.subcommands) others.push_back(full_name(page) + " " + one.name);
  for (std::string& one : others) {
    std::replace(one.begin(), one.end(), ' ', '-');
    one = fmt::format(".BR {} (1)", roff(one));
  }
  return out + fmt::format("{}\n", fmt::join(others, ",\n"));
}

// Escapes what Markdown would read as markup; text between backquotes stays as it is.
std::string escape_markdown(std::string_view text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    if (c == '`') code = !code;
    if (!code && (c == '<' || c == '*' || c == '_' || c == '[' || c == ']')) out += '\\';
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown(const CommandPage& page) {
  std::string out = fmt::format("## {}\n\n{}\n\n```text\n{}\n```\n", full_name(page),
                                escape_markdown(page.summary), page.usage);
  if (!page.subcommands.empty()) out += "\n| subcommand | |\n|---|---|\n";
  for (const auto& one : page.subcommands) {
    std::string link = full_name(page, "-") + "-" + one.name;
    out += fmt::format("| [{}](#{}) | {} |\n", one.name, link, escape_markdown(one.summary));
  }
  for (const auto& group : page.groups) {
    out += fmt::format("\n| {} | |\n|---|---|\n", group.heading);
    for (const auto& row : group.rows) {
      const size_t at = row.left.find_first_not_of(' ');
      std::string left = row.left.substr(at);
      if (const size_t bar = left.find('|'); bar != std::string::npos) left.insert(bar, "\\");
      out += fmt::format("| `{}` | {} |\n", left, escape_markdown(row.right));
    }
  }
  return page.example.empty() ? out : out + fmt::format("\nExample: `{}`\n", page.example);
}

Json json_of(const CommandPage& page) {
  Json options = Json::array(), subcommands = Json::array();
  for (const auto& group : page.groups)
    for (const auto& row : group.rows)
      options.push_back({{"names", row.names},
                         {"value", row.value},
                         {"help", row.right},
                         {"group", group.heading},
                         {"positional", row.positional},
                         {"takes_value", row.takes_value}});
  for (const auto& one : page.subcommands)
    subcommands.push_back({{"name", one.name}, {"summary", one.summary}});
  return {{"command", page.command}, {"summary", page.summary},    {"usage", page.usage},
          {"example", page.example}, {"subcommands", subcommands}, {"options", options}};
}

int write_man_pages(const std::vector<CommandPage>& pages, const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return report(error_at(folder, "cannot be created: {}", code.message()));
  for (const CommandPage& page : pages)
    if (const Status written = write_file(folder + "/" + full_name(page, "-") + ".1", man_page(page));
        !written.ok())
      return report(written.error());
  fmt::print(stderr, "{}: {} man pages\n", folder, pages.size());
  return 0;
}

}  // namespace

int run_reference(const std::vector<std::string>& arguments) {
  std::string format = "markdown", output;
  std::vector<std::string> words;
  Options options("reference",
                  "Print the options of a command, or of all commands, as Markdown, man page or JSON.",
                  "makar reference --format man -o man1");
  options.positional("COMMAND", &words, "the command, such as `data world`; all of them if not given")
      .required = false;
  options.add("--format", &format, "markdown, man or json", "NAME");
  options.add("-o --output --out", &output, "with --format man: the folder for one file per command", "DIR");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (format != "markdown" && format != "man" && format != "json")
    return report(error_at("--format", "expected markdown, man or json, got '{}'", format)), 2;
  if (!output.empty() && format != "man")
    return report(error_at("--output", "works with --format man only; redirect the others to a file")), 2;
  std::vector<CommandPage> pages = command_pages();
  if (!words.empty()) {
    const std::string command = fmt::format("{}", fmt::join(words, " "));
    std::erase_if(pages, [&](const CommandPage& page) { return page.command != command; });
    if (pages.empty()) return report(error_at("COMMAND", "unknown command '{}'", command)), 2;
  }
  if (!output.empty()) return write_man_pages(pages, output);
  if (format == "man" && pages.size() > 1)
    return report(error_at("--format man", "expects one COMMAND, or --output for all of them")), 2;
  if (format == "json") {
    Json all = Json::array();
    for (const CommandPage& page : pages) all.push_back(json_of(page));
    fmt::print("{}\n", all.dump(1));
    return 0;
  }
  if (format == "markdown" && pages.size() > 1)
    fmt::print("# Reference\n\nThe output of `makar reference`: every command with its options.\n\n");
  for (size_t i = 0; i < pages.size(); ++i)
    fmt::print("{}{}", i ? "\n" : "", format == "man" ? man_page(pages[i]) : markdown(pages[i]));
  return 0;
}

}  // namespace makar
