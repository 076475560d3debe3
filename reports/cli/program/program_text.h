#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mptune::reports {

/// One option or argument of a command. Help, manual pages and completion are made of these values, so none of them lacks an option.
struct OptionText {
  std::vector<std::string> names;  ///< "-o", "--output"; for an argument its one name, "MODEL"
  std::string type;                ///< type of the value, "FILE"; "" for a flag
  std::string group;               ///< heading in help; "" for an argument
  std::string description;
  std::vector<std::string> words;  ///< fixed values
  bool files = false;              ///< a path may be given
  bool required = false;
  bool repeats = false;  ///< an argument that may be given several times
};

struct CommandText {
  std::string name;  ///< "tune"; "" for the program itself
  std::string description;
  std::vector<OptionText> arguments;
  std::vector<OptionText> options;  ///< by groups, in the order in which help shows the groups; without the program's options
  std::string notes;                ///< lines; those that begin with blanks stay as they are
  std::vector<std::string> examples;
};

struct ProgramText {
  CommandText program;  ///< its options stand before or after any command
  std::vector<CommandText> commands;
};

/// Reads the tree of commands and options. In the footer of a command, lines after "Example:" up to an empty one are examples. Options
/// without a group are left out.
[[nodiscard]] ProgramText text_of(CLI::App& program);

/// Returns the command of this name; null if there is none.
[[nodiscard]] const CommandText* find_command(const ProgramText& program, const std::string& name);
[[nodiscard]] std::vector<std::string> command_names(const ProgramText& program);

/// Returns "mptune tune"; "mptune" for the program itself.
[[nodiscard]] std::string full_name(const CommandText& command);
/// Returns "-o,--output PATH"; for an argument "MODEL", or "FILE ..." where it repeats.
[[nodiscard]] std::string label_of(const OptionText& option);
/// Returns the command's words after its name: "[OPTIONS] MODEL".
[[nodiscard]] std::string synopsis_of(const CommandText& command);

}  // namespace mptune::reports
