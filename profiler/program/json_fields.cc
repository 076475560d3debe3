#include "mptune/profiler/program/json_fields.h"

#include <limits>

namespace mptune {

namespace {
constexpr const char* kExportAgain = "the file is damaged or of another version: export it again with torch.export.save";
}

void JsonField::refuse(const std::string& what) const {
  throw Error("the exported program is damaged: " + what, *file_ + " " + (place_.empty() ? "/" : place_), kExportAgain);
}

double JsonField::number() const {
  if (value_->is_number()) return value_->get<double>();
  if (value_->is_string()) {
    const std::string& name = value_->get_ref<const std::string&>();
    if (name == "Infinity") return std::numeric_limits<double>::infinity();
    if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse("not a number");
}

nlohmann::json parse_program_json(const std::string& text, const std::string& file) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) throw Error("the exported program is not JSON", file, kExportAgain);
  return document;
}

}  // namespace mptune
