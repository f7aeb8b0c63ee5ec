// makar completion: scripts that complete commands, subcommands and options in bash, zsh and fish.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command_pages.h"
#include "cli/run.h"

namespace makar {
namespace {

// Whether a value is a file or a folder, by its placeholder in --help.
bool is_path(const std::string& value) {
  for (const char* word : {"FILE", "DIR", "PATH", "FOLDER", "MODEL", "YAML", "CSV", "DB"})
    if (value.find(word) != std::string::npos) return true;
  return false;
}

std::vector<const CommandPage::Row*> options_of(const CommandPage& page) {
  std::vector<const CommandPage::Row*> out;
  for (const auto& group : page.groups)
    for (const auto& row : group.rows)
      if (!row.positional) out.push_back(&row);
  return out;
}

std::string flags_of(const CommandPage& page) {
  std::string out = "--help";
  for (const auto* row : options_of(page))
    for (const auto& name : row->names) out += " " + name;
  return out;
}

std::string subcommands_of(const CommandPage& page) {
  std::vector<std::string> names;
  for (const auto& one : page.subcommands) names.push_back(one.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// The text in single quotes, for a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash_script(const std::vector<CommandPage>& pages) {
  std::string out = R"(# bash completion of makar, written by `makar completion bash`.
_makar() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command= options= values= paths= below= word i
  _makar_page ''
  # The longest prefix of the words that is a command.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ " $below " == *" $word "* ]] || break
    command+=${command:+ }$word
    _makar_page "$command"
  done
  COMPREPLY=()
  if [[ " $paths " == *" $prev "* ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ " $values " == *" $prev "* ]]; then
    return
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else
    ((i == COMP_CWORD)) && COMPREPLY=($(compgen -W "$below" -- "$cur"))
    if [[ -n $command && ${#COMPREPLY[@]} -eq 0 ]]; then
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -- "$cur"))
    fi
  fi
}

# Sets the variables of _makar for one command: options (all of them), paths (those whose value is a path),
# values (those with another value), below (the subcommands).
_makar_page() {
  case $1 in
)";
  for (const CommandPage& page : pages) {
    std::string values, paths;
    for (const auto* row : options_of(page))
      for (const auto& name : row->names)
        if (row->takes_value) (is_path(row->value) ? paths : values) += (name + " ");
    out += fmt::format("    {})\n      options={}\n      values={} paths={} below={} ;;\n",
                       shell_quoted(page.command), shell_quoted(flags_of(page)), shell_quoted(values),
                       shell_quoted(paths), shell_quoted(subcommands_of(page)));
  }
  return out + "  esac\n}\n\ncomplete -F _makar makar\n";
}

// Escapes a description for a zsh specification.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const std::vector<CommandPage>& pages) {
  std::string out = "#compdef makar\n# zsh completion of makar, written by `makar completion zsh`.\n";
  for (const CommandPage& page : pages) {
    std::string function = "_makar_" + page.command;
    for (char& c : function)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    out += fmt::format("\n{}() {{\n", function);
    if (!page.subcommands.empty()) {
      out += "  local -a below=(\n";
      for (const auto& one : page.subcommands)
        out += "    " + shell_quoted(zsh_text(one.name) + ":" + zsh_text(one.summary)) + "\n";
      out += "  )\n  if ((CURRENT > 2)); then\n    case $words[2] in\n";
      for (const auto& one : page.subcommands) {
        std::string next = function + (page.command.empty() ? "" : "_") + one.name;
        for (char& c : next)
          if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
        out += fmt::format("      {}) shift words; ((CURRENT--)); {}; return ;;\n", shell_quoted(one.name),
                           next);
      }
      out += "    esac\n  elif [[ $words[2] != -* ]]; then\n    _describe -t commands command below\n  fi\n";
    }
    if (!page.command.empty()) {
      out += "  _arguments \\\n";
      for (const auto* row : options_of(page))
        for (const auto& name : row->names) {
          std::string spec = name;
          if (row->takes_value && name.starts_with("--")) spec += "=";
          spec += "[" + zsh_text(row->right) + "]";
          if (row->takes_value)
            spec += ":" + zsh_text(row->value.empty() ? "value" : row->value) +
                    (is_path(row->value) ? ":_files" : ":");
          out += "    " + shell_quoted(spec) + " \\\n";
        }
      out += "    '--help[show the help]' \\\n    '*:file:_files'\n";
    }
    out += "}\n";
  }
  return out + "\n_makar_ \"$@\"\n";
}

std::string fish_script(const std::vector<CommandPage>& pages) {
  std::string commands;
  for (const CommandPage& page : pages)
    if (!page.command.empty()) commands += " " + shell_quoted(page.command);
  std::string out = R"(# fish completion of makar, written by `makar completion fish`.
function __makar_command
    # The longest prefix of the words that is a command.
    set -l command
    for word in (commandline -opc)[2..-1]
        set -l longer (string join ' ' -- $command $word)
        contains -- $longer)" +
                    commands + R"(
        or break
        set command $command $word
    end
    string join ' ' -- $command
end

function __makar_at
    set -l command (__makar_command)
    test "$command" = "$argv[1]"
end

complete -c makar -n "__makar_at ''" -f
)";
  for (const CommandPage& page : pages) {
    const std::string at =
        fmt::format("complete -c makar -n {} ", shell_quoted("__makar_at '" + page.command + "'"));
    for (const auto& one : page.subcommands)
      out += fmt::format("{}-a {} -d {}\n", at, one.name, shell_quoted(one.summary));
    for (const auto* row : options_of(page)) {
      std::string names;
      for (const auto& name : row->names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      const char* kind = !row->takes_value ? "" : is_path(row->value) ? " -r -F" : " -x";
      out += fmt::format("{}{}{} -d {}\n", at, names.substr(1), kind, shell_quoted(row->right));
    }
  }
  return out;
}

}  // namespace

int run_completion(const std::vector<std::string>& arguments) {
  std::string shell;
  Options options("completion", "Print the completion script of a shell.",
                  "makar completion bash > ~/.local/share/bash-completion/completions/makar");
  options.positional("SHELL", &shell, "bash, zsh or fish");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    return report(error_at("SHELL", "expected bash, zsh or fish, got '{}'", shell)), 2;
  const std::vector<CommandPage> pages = command_pages();
  const std::string script = shell == "bash"  ? bash_script(pages)
                             : shell == "zsh" ? zsh_script(pages)
                                              : fish_script(pages);
  fmt::print("{}", script);
  return 0;
}

}  // namespace makar
