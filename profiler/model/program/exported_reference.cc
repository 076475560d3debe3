#include "profiler/model/program/exported_reference.h"

#include <cstdint>

#include "profiler/base/error.h"
#include "profiler/base/json_field.h"
#include "profiler/base/text.h"
#include "profiler/model/program/read_graph.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kMostThreads = 4096;
constexpr std::size_t kLongestLine = 200;

std::map<std::string, double> norms_of(const JsonField& field) {
  std::map<std::string, double> norms;
  field.each_member([&](const std::string& name, const JsonField& norm) { norms[name] = norm.number(); });
  return norms;
}

}  // namespace

ExportedReference read_reference(const std::string& json, const std::string& where) {
  const std::string file = where + " extra/mptune.json";
  const JsonSource source = exported_program_source(file);
  const nlohmann::json document = parse_json(json, source);
  const JsonField root(document, source);
  if (const std::string& schema = root.at("schema").text(); schema != "mptune.export/1")
    throw Error("unknown reference schema '" + schema.substr(0, 40) + "'", file,
                "export the model again with the mptune_export.py of this mptune");
  ExportedReference reference;
  if (root.has("torch")) reference.torch = root.at("torch").text();
  if (root.has("device")) reference.device = root.at("device").text();
  if (root.has("threads")) reference.threads = static_cast<int>(root.at("threads").whole(1, kMostThreads));
  reference.seed = root.at("seed").whole();
  reference.loss = root.at("loss").number();
  reference.loss_in_program = root.at("loss_in_program").truth();
  reference.gradient_norms = norms_of(root.at("gradient_norms"));
  reference.buffer_norms = norms_of(root.at("buffer_norms"));
  if (root.has("batch_limit")) reference.batch_limit = one_line(root.at("batch_limit").text()).substr(0, kLongestLine);
  if (root.has("cumulative_norms"))
    root.at("cumulative_norms").each([&](const JsonField& norm) { reference.cumulative_norms.insert(norm.text()); });
  return reference;
}

}  // namespace mptune::profiler
