#include <map>
#include <set>

#include "profiler/base/text.h"
#include "reports/cli/program/completion.h"

namespace mptune::reports {
namespace {

constexpr const char* kBashBegin = R"sh(# Completion of mptune in bash, made by: mptune completion bash
_mptune() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' count=0 words='' files='' i
  COMPREPLY=()
)sh";

// bash splits words at = and :, so that --batch=32 is three words.
constexpr const char* kBashWords = R"sh(  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --)
        mapfile -t COMPREPLY < <(compgen -c -f -- "$current")
        return
        ;;
      = | :) ((i++)) ;;
      -*) [[ $valued == *" ${COMP_WORDS[i]} "* && ${COMP_WORDS[i + 1]} != = ]] && ((i++)) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else ((count++)); fi ;;
    esac
  done
  if [[ $current == : || $previous == : ]]; then
    return
  elif [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)sh";

constexpr const char* kBashEnd = R"sh(  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $files ]]; then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2> /dev/null
  fi
}
complete -F _mptune mptune
)sh";

using Values = std::pair<std::vector<std::string>, bool>;  // words, and whether files are values

std::string assignments(const Values& values) {
  const std::string words = values.first.empty() ? "" : "words=" + shell_quoted(join(values.first, " "));
  return words + (!words.empty() && values.second ? " " : "") + (values.second ? "files=yes" : "");
}

/// Returns one line for all places that have the same values.
std::string cases(const std::map<Values, std::vector<std::string>>& places) {
  std::string text;
  for (const auto& [values, patterns] : places)
    if (const std::string made = assignments(values); !made.empty()) text += "      " + join(patterns, " | ") + ") " + made + " ;;\n";
  return text;
}

void add_values(const CommandText& command, const std::string& pattern, std::map<Values, std::vector<std::string>>& places,
                std::set<std::string>& valued) {
  for (const OptionText& option : command.options) {
    for (const std::string& name : option.names) {
      if (option.type.empty()) continue;
      valued.insert(name);
      places[{option.words, option.files}].push_back(pattern + name);
    }
  }
}

std::vector<std::string> option_names_of(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

}  // namespace

std::string bash_completion(const ProgramText& program) {
  std::map<Values, std::vector<std::string>> values, arguments;
  std::set<std::string> valued;
  std::string options;
  const std::vector<std::string> global = option_names_of(program.program);
  add_values(program.program, "*:", values, valued);
  arguments[{command_names(program), false}].push_back(":0");
  for (const CommandText& command : program.commands) {
    add_values(command, command.name + ":", values, valued);
    std::vector<std::string> names = option_names_of(command);
    names.insert(names.end(), global.begin(), global.end());
    options += "      " + command.name + ") words=" + shell_quoted(join(names, " ")) + " ;;\n";
    for (std::size_t i = 0; i < command.arguments.size(); ++i)
      arguments[{command.arguments[i].words, command.arguments[i].files}].push_back(
          command.name + ":" + (command.arguments[i].repeats ? "*" : std::to_string(i)));
  }
  options += "      '') words=" + shell_quoted(join(global, " ")) + " ;;\n";
  return std::string(kBashBegin) + "  local valued=' " + join({valued.begin(), valued.end()}, " ") + " '\n" + kBashWords +
         "  if [[ $valued == *\" $previous \"* ]]; then\n    case $command:$previous in\n" + cases(values) +
         "    esac\n  elif [[ $current == -* ]]; then\n    case $command in\n" + options +
         "    esac\n  else\n    case $command:$count in\n" + cases(arguments) + "    esac\n  fi\n" + kBashEnd;
}

}  // namespace mptune::reports
