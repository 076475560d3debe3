#include "mptune/profiler/program/exported_reference.h"

#include <cmath>
#include <cstdint>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/program/json_fields.h"

namespace mptune {
namespace {

double finite_number(const JsonField& field) {
  const double number = field.number();
  if (!std::isfinite(number)) field.refuse("not a finite number");
  return number;
}

std::map<std::string, double> norms_of(const JsonField& field) {
  std::map<std::string, double> norms;
  field.each_member([&](const std::string& name, const JsonField& norm) { norms[name] = finite_number(norm); });
  return norms;
}

int threads_of(const JsonField& field) {
  constexpr int kMost = 4096;
  const std::int64_t threads = field.whole();
  if (threads < 1 || threads > kMost) field.refuse("no number of threads");
  return static_cast<int>(threads);
}

}  // namespace

ExportedReference read_reference(const std::string& json, const std::string& where) {
  const std::string file = where + " extra/mptune.json";
  const nlohmann::json document = parse_program_json(json, file);
  const JsonField root(document, file, "");
  if (const std::string& schema = root.at("schema").text(); schema != "mptune.export/1")
    throw Error("a reference of schema '" + schema.substr(0, 40) + "', which this mptune does not know", file,
                "export the model again with the mptune_export.py of this mptune");
  ExportedReference reference;
  if (root.has("torch")) reference.torch = root.at("torch").text();
  if (root.has("device")) reference.device = root.at("device").text();
  if (root.has("threads")) reference.threads = threads_of(root.at("threads"));
  reference.seed = root.at("seed").whole();
  reference.loss = finite_number(root.at("loss"));
  reference.loss_in_program = root.at("loss_in_program").truth();
  reference.gradient_norms = norms_of(root.at("gradient_norms"));
  reference.buffer_norms = norms_of(root.at("buffer_norms"));
  return reference;
}

}  // namespace mptune
