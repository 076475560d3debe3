#include "reports/cli/config_file.h"

#include <toml++/toml.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
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

using Defaults = std::map<std::string, std::string>;

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

/// A text, or for devices a list of texts with commas between them.
std::string value_of(const std::string& key, const toml::node& node, const std::string& path) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  const toml::array* list = key == "devices" ? node.as_array() : nullptr;
  const std::string remedy = key == "devices" ? R"(write devices = ["cpu:0", "cpu:1"])" : "write " + key + " = \"...\", as for --" + key;
  if (list == nullptr || list->empty()) throw Error("the value of " + key + " is no text", at_line(path, node.source()), remedy);
  std::vector<std::string> parts;
  for (const toml::node& part : *list) {
    const auto text = part.value_exact<std::string>();
    if (!text) throw Error("a value of " + key + " is no text", at_line(path, part.source()), remedy);
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
    defaults[key] = value_of(key, node, path);
    if (defaults[key].empty()) throw Error("the value of " + key + " is empty", at_line(path, node.source()), "leave the line out");
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

std::string apply_config(CLI::App& command, const GlobalOptions& options) {
  const bool reads = std::ranges::find(kConfigCommands, command.get_name()) != kConfigCommands.end();
  if (options.no_config || (!reads && options.config.empty())) return "";
  std::error_code ignored;
  const std::string path = options.config.empty() ? find_config(fs::current_path(ignored).string(), config_home()) : options.config;
  if (path.empty()) return "";
  std::vector<std::string> used;
  for (const auto& [key, value] : parse_config(read_config(path), path)) {
    CLI::Option* option = reads ? command.get_option_no_throw("--" + key) : nullptr;
    if (option == nullptr || option->count() > 0) continue;
    option->add_result(value);
    option->run_callback();
    used.push_back(key);
  }
  return used.empty() ? "" : "defaults from " + path + ": " + join(used, ", ");
}

}  // namespace mptune::reports
