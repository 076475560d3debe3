#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace mptune::testing {

/// The records of an exported archive, to be changed and written again.
struct EditedArchive {
  /// tests/golden/exported/NAME.pt2.
  explicit EditedArchive(const std::string& name);
  EditedArchive() = default;

  [[nodiscard]] nlohmann::json program() const { return nlohmann::json::parse(records.at("models/model.json")); }
  void set_program(const nlohmann::json& program) { records["models/model.json"] = program.dump(); }
  [[nodiscard]] nlohmann::json weights() const { return nlohmann::json::parse(records.at(kWeights)); }
  void set_weights(const nlohmann::json& weights) { records[kWeights] = weights.dump(); }

  /// Writes it to `path`, which it returns.
  std::string write(const std::string& path) const;

  static constexpr const char* kWeights = "data/weights/model_weights_config.json";
  std::map<std::string, std::string> records;
};

}  // namespace mptune::testing
