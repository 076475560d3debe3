#include "profiler/base/error.h"
#include "profiler/base/json_field.h"
#include "profiler/model/program/exported_program.h"
#include "profiler/model/program/read_graph.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kSchemaMajor = 8;

void check_schema(const JsonField& root, ExportedProgram& program) {
  const std::int64_t major = root.at("schema_version").at("major").whole();
  program.torch_version = root.has("torch_version") ? root.at("torch_version").text() : "";
  if (major != kSchemaMajor)
    throw Error("the exported program has schema " + std::to_string(major) + ", made by torch " + program.torch_version, root.source().file,
                "export it again with torch 2.8 or later (schema " + std::to_string(kSchemaMajor) + ")");
  program.schema_minor = static_cast<int>(root.at("schema_version").at("minor").whole());
}

ProgramInput read_input(const JsonField& field) {
  const auto [kind, spec] = field.only();
  if (kind == "user_input") return {ProgramInput::Kind::user, "", true};
  if (kind == "parameter") return {ProgramInput::Kind::parameter, spec.at("parameter_name").text(), true};
  if (kind == "buffer")
    return {ProgramInput::Kind::buffer, spec.at("buffer_name").text(), !spec.has("persistent") || spec.at("persistent").truth()};
  if (kind == "tensor_constant") return {ProgramInput::Kind::constant_tensor, spec.at("tensor_constant_name").text(), false};
  if (kind == "constant_input") return {ProgramInput::Kind::constant, spec.at("name").text(), false};
  field.fail("inputs of kind '" + kind.substr(0, 40) + "' can't be run");
}

ProgramOutput read_output(const JsonField& field) {
  const auto [kind, spec] = field.only();
  if (kind == "user_output") return {ProgramOutput::Kind::user, ""};
  if (kind == "loss_output") return {ProgramOutput::Kind::loss, ""};
  if (kind == "buffer_mutation") return {ProgramOutput::Kind::buffer_mutation, spec.at("buffer_name").text()};
  field.fail("outputs of kind '" + kind.substr(0, 40) + "' can't be run");
}

void read_signature(const JsonField& field, ExportedProgram& program) {
  field.at("input_specs").each([&](const JsonField& input) { program.inputs.push_back(read_input(input)); });
  field.at("output_specs").each([&](const JsonField& output) { program.outputs.push_back(read_output(output)); });
  if (program.inputs.size() != program.graph.inputs.size()) field.fail("the graph has another number of inputs");
  if (program.outputs.size() != program.graph.outputs.size()) field.fail("the graph has another number of outputs");
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const bool value = std::holds_alternative<ProgramValue>(program.graph.inputs[i]);
    const ProgramInput::Kind kind = program.inputs[i].kind;
    if (!value && kind != ProgramInput::Kind::constant && kind != ProgramInput::Kind::user) field.fail("a parameter that is not a tensor");
  }
}

void read_symbols(const JsonField& field, ExportedProgram& program) {
  const auto bound = [](const JsonField& range, const char* key) {
    return range.has(key) ? std::optional(range.at(key).whole()) : std::nullopt;
  };
  field.each_member([&](const std::string& name, const JsonField& range) {
    program.symbols[name] = {bound(range, "min_val"), bound(range, "max_val")};
  });
}

/// Reads the names of forward's arguments from the first entry of the call graph, which is the model itself.
void read_input_names(const JsonField& calls, ExportedProgram& program) {
  calls.each([&](const JsonField& call) {
    if (!call.at("fqn").text().empty() || !call.has("signature")) return;
    const JsonField signature = call.at("signature");
    if (signature.has("forward_arg_names"))
      signature.at("forward_arg_names").each([&](const JsonField& name) { program.input_names.push_back(name.text()); });
  });
}

bool leaves_its_folder(const std::string& record) {
  return record.empty() || record.size() > 200 || record.find_first_of("/\\") != std::string::npos || record == "." || record == "..";
}

}  // namespace

JsonSource exported_program_source(const std::string& file) {
  return {file, "the exported program is damaged: ", "the file is damaged or of another version: export it again with torch.export.save"};
}

ExportedProgram read_program(const std::string& json, const std::string& where) {
  const JsonSource source = exported_program_source(where);
  const nlohmann::json document = parse_json(json, source);
  const JsonField root(document, source);
  ExportedProgram program;
  check_schema(root, program);
  const JsonField module = root.at("graph_module");
  program.graph = read_graph(module.at("graph"));
  read_signature(module.at("signature"), program);
  if (module.has("module_call_graph")) read_input_names(module.at("module_call_graph"), program);
  read_symbols(root.at("range_constraints"), program);
  if (root.has("guards_code")) root.at("guards_code").each([&](const JsonField& guard) { program.guards.push_back(guard.text()); });
  if (root.has("verifiers"))
    root.at("verifiers").each([&](const JsonField& verifier) { program.decomposed = program.decomposed || verifier.text() == "ATEN"; });
  return program;
}

std::map<std::string, StoredTensor> read_stored_tensors(const std::string& json, const std::string& where) {
  const JsonSource source = exported_program_source(where);
  const nlohmann::json document = parse_json(json, source);
  std::map<std::string, StoredTensor> tensors;
  JsonField(document, source).at("config").each_member([&](const std::string& name, const JsonField& field) {
    StoredTensor tensor;
    tensor.record = field.at("path_name").text();
    if (leaves_its_folder(tensor.record)) field.fail("'" + tensor.record.substr(0, 40) + "' is not the name of a record");
    tensor.parameter = field.at("is_param").truth();
    tensor.pickled = field.at("use_pickle").truth();
    if (field.has("tensor_meta")) tensor.description = read_tensor_description(field.at("tensor_meta"));
    tensors.emplace(name, std::move(tensor));
  });
  return tensors;
}

}  // namespace mptune::profiler
