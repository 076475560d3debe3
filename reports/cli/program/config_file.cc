#include "reports/cli/program/config_file.h"

#include <toml++/toml.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigName = "mptune.toml";
constexpr std::uintmax_t kMostConfigBytes = 64 << 10;
const std::vector<std::string> kConfigKeys = {"devices", "memory", "link", "budget"};
/// Commands that use this machine. The others take devices and links from the files that they read.
constexpr std::array kConfigCommands = {"profile", "tune", "run", "check", "doctor"};

struct Default {
  std::string value;
  std::string at;  ///< "PATH:LINE"
};
using Defaults = std::map<std::string, Default>;

std::string read_config(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) throw Error("the file does not exist", path, "give --config a file of defaults, or leave it out");
  if (!fs::is_regular_file(status)) throw Error("a file of defaults is expected", path, "give --config a text file, or --no-config");
  if (fs::file_size(path, failed) > kMostConfigBytes || failed)
    throw Error("the file is too large for one of defaults", path, "give --config another file, or --no-config");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error("the file can't be read", path, "check its permissions, or give --no-config");
  return text.str();
}

std::string at_line(const std::string& path, const toml::source_region& source) {
  return path + ":" + std::to_string(source.begin.line);
}

/// Returns the value: a text, or for devices a list of texts with commas between them.
std::string value_of(const std::string& key, const toml::node& node, const std::string& path) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  const toml::array* list = key == "devices" ? node.as_array() : nullptr;
  const std::string remedy = key == "devices" ? R"(write devices = ["cpu:0", "cpu:1"])" : "write " + key + " = \"...\", as for --" + key;
  if (list == nullptr || list->empty())
    throw Error("the value of " + key + " must be a text in quotes", at_line(path, node.source()), remedy);
  std::vector<std::string> parts;
  for (const toml::node& part : *list) {
    const auto text = part.value_exact<std::string>();
    if (!text) throw Error("each value of " + key + " must be a text in quotes", at_line(path, part.source()), remedy);
    parts.push_back(*text);
  }
  return join(parts, ",");
}

Defaults parse_config(const std::string& text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    throw Error("this is not TOML: " + printable(std::string(parsed.error().description())), at_line(path, parsed.error().source()),
                "mend the line, or give --no-config");
  }
  Defaults defaults;
  for (const auto& [name, node] : parsed.table()) {
    const std::string key(name.str());
    if (std::ranges::find(kConfigKeys, key) == kConfigKeys.end())
      throw Error("there is no default '" + key + "'", at_line(path, name.source()),
                  did_you_mean(key, kConfigKeys, "use " + join(kConfigKeys, ", ")));
    defaults[key] = {value_of(key, node, path), at_line(path, node.source())};
    if (defaults[key].value.empty()) throw Error("the value of " + key + " is empty", at_line(path, node.source()), "leave the line out");
  }
  return defaults;
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string config_home() {
  const std::string given = environment_variable("XDG_CONFIG_HOME"), home = environment_variable("HOME");
  return !given.empty() || home.empty() ? given : home + "/.config";
}

bool within_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-';
}

/// Returns `text` with `place` for `option`, except in commands, which stand in `quotes`.
std::string with_place(const std::string& text, const std::string& option, const std::string& place) {
  std::string named;
  bool command = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + option.size();
    const bool found = !command && text.compare(at, option.size(), option) == 0 && (end == text.size() || !within_word(text[end]));
    command = command != (text[at] == '`');
    named += found ? place : text.substr(at, 1);
    at = found ? end : at + 1;
  }
  return named;
}

/// Adds the place in the file to an error at one of the file's values, such as a device.
std::string with_origin(const std::string& where, const UsedDefaults& defaults) {
  for (const UsedDefault& used : defaults.values)
    for (const std::string& value : split(used.value, ','))
      if (!where.empty() && where == value) return where + ", " + used.place;
  return where;
}

}  // namespace

std::string find_config(const std::string& folder, const std::string& home) {
  std::error_code ignored;
  for (fs::path place = folder;; place = place.parent_path()) {
    if (fs::exists(place / kConfigName, ignored)) return (place / kConfigName).string();
    if (fs::exists(place / ".git", ignored) || place == place.parent_path()) break;
  }
  const fs::path own = fs::path(home) / "mptune" / kConfigName;
  return !home.empty() && fs::exists(own, ignored) ? own.string() : "";
}

UsedDefaults apply_config(CLI::App& command, const GlobalOptions& options) {
  const bool reads = std::ranges::find(kConfigCommands, command.get_name()) != kConfigCommands.end();
  if (options.no_config || (!reads && options.config.empty())) return {};
  std::error_code ignored;
  const std::string path = options.config.empty() ? find_config(fs::current_path(ignored).string(), config_home()) : options.config;
  UsedDefaults used{path, {}};
  if (path.empty()) return used;
  for (const auto& [key, found] : parse_config(read_config(path), path)) {
    CLI::Option* option = reads ? command.get_option_no_throw("--" + key) : nullptr;
    if (option == nullptr || option->count() > 0) continue;
    option->add_result(found.value);
    option->run_callback();
    used.values.push_back({key, found.value, key + " in " + found.at});
  }
  return used;
}

std::string text_of(const UsedDefaults& defaults) {
  std::vector<std::string> keys;
  for (const UsedDefault& used : defaults.values) keys.push_back(used.key);
  return keys.empty() ? "" : "defaults from " + defaults.path + ": " + join(keys, ", ");
}

Error with_places(const Error& error, const UsedDefaults& defaults) {
  std::string what = error.problem(), where = with_origin(error.where(), defaults);
  for (const UsedDefault& used : defaults.values) {
    const std::string option = "--" + used.key;
    what = with_place(what, option, used.place);
    where = with_place(where, option, used.place);
  }
  return {what, where, error.remedy(), error.code()};
}

}  // namespace mptune::reports
