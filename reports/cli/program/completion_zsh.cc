#include "profiler/base/text.h"
#include "reports/cli/program/completion.h"

namespace mptune::reports {
namespace {

constexpr const char* kZshBegin = R"sh(#compdef mptune
# Completion of mptune in zsh, made by: mptune completion zsh
_mptune() {
  local state
  local -a global commands
)sh";

constexpr const char* kZshEnd = R"sh(      esac
      ;;
  esac
}
if [[ ${funcstack[1]} == _mptune ]]; then
  _mptune "$@"
else
  compdef _mptune mptune
fi
)sh";

constexpr const char* kZshState = R"sh(  _arguments -C $global '1: :->command' '*:: :->arguments'
  case $state in
    command) _describe -t commands command commands ;;
    arguments)
      local marker=${words[(i)--]}
      if [[ $words[1] == profile ]] && (( CURRENT > marker )); then
        shift $marker words
        (( CURRENT -= marker ))
        _normal
        return
      fi
      case $words[1] in
)sh";

/// Returns the text with a backslash before each of `marks`.
std::string escaped(const std::string& text, const std::string& marks) {
  std::string out;
  for (const char c : text) out += (marks.find(c) == std::string::npos ? "" : "\\") + std::string(1, c);
  return out;
}

/// Returns what _arguments does for a value: it offers words, files, both, or nothing.
std::string action_of(const OptionText& option) {
  const std::string words = escaped(join(option.words, " "), ":");
  if (option.files) return words.empty() ? "_files" : "{compadd -- " + words + "; _files}";
  return words.empty() ? " " : "(" + words + ")";
}

std::string option_specs(const OptionText& option, const std::string& indent) {
  const std::string excluded = option.names.size() > 1 ? "(" + join(option.names, " ") + ")" : "";
  const std::string about = "[" + escaped(first_clause(option.description), "[]:\\") + "]";
  const std::string value = option.type.empty() ? "" : ":" + escaped(option.type, "[]:\\") + ":" + action_of(option);
  std::string text;
  for (const std::string& name : option.names) {
    const std::string joined = option.type.empty() ? "" : name.starts_with("--") ? "=" : "+";
    text += indent + shell_quoted(excluded + name + joined + about + value);
  }
  return text;
}

std::string argument_spec(const OptionText& argument, std::size_t place, const std::string& indent) {
  const std::string optional = argument.required ? ":" : "::";
  const std::string which = argument.repeats ? "*:" : std::to_string(place) + optional;
  return indent + shell_quoted(which + escaped(argument.names[0], ":") + ":" + action_of(argument));
}

}  // namespace

std::string zsh_completion(const ProgramText& program) {
  const std::string in_array = "\n    ", in_command = " \\\n            ";
  std::string text = std::string(kZshBegin) + "  global=(";
  for (const OptionText& option : program.program.options) text += option_specs(option, in_array);
  text += "\n  )\n  commands=(";
  for (const CommandText& command : program.commands)
    text += in_array + shell_quoted(command.name + ":" + escaped(first_clause(command.description), ":"));
  text += std::string("\n  )\n") + kZshState;
  for (const CommandText& command : program.commands) {
    text += "        " + command.name + ")\n          _arguments $global";
    for (const OptionText& option : command.options) text += option_specs(option, in_command);
    for (std::size_t i = 0; i < command.arguments.size(); ++i) text += argument_spec(command.arguments[i], i + 1, in_command);
    text += "\n          ;;\n";
  }
  return text + kZshEnd;
}

}  // namespace mptune::reports
