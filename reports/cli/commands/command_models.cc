#include <CLI/CLI.hpp>
#include <memory>

#include "profiler/base/units.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"
#include "reports/render/table.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {
namespace {

struct ModelsOptions {
  std::string model;
  std::string input;
};

std::vector<tuner::DescribedModel> described(const ModelsOptions& options, const tuner::WaitOptions& wait) {
  std::vector<tuner::DescribedModel> models;
  tuner::DescribeRequest request;
  request.setup.model = options.model;
  request.setup.input = options.input;
  request.all_models = options.model.empty();
  tuner::call_worker(request, wait, [&](const tuner::Reply& reply) {
    if (const auto* answer = std::get_if<tuner::Described>(&reply)) models = answer->models;
  });
  return models;
}

std::string table_of_models(const std::vector<tuner::DescribedModel>& models, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;
  for (const tuner::DescribedModel& model : models) {
    rows.push_back(
        {model.name, std::to_string(model.layers.size()), format_count(model.parameters), model.input, std::to_string(model.batch)});
    notes.push_back(model.description + (model.parameters_text.empty() ? "" : "; options: " + model.parameters_text));
  }
  return render_table({{"model"}, {"layers", true}, {"parameters", true}, {"input"}, {"batch", true}}, rows, notes, style);
}

std::string table_of_layers(const tuner::DescribedModel& model, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const ProfileLayer& layer = model.layers[i];
    rows.push_back({std::to_string(i), layer.name, layer.kind, format_count(layer.parameters)});
  }
  return render_table({{"layer", true}, {"name"}, {"kind"}, {"parameters", true}}, rows, style);
}

planner::Json models_json(const std::vector<tuner::DescribedModel>& models) {
  planner::Json json = result_of("models");
  json["models"] = planner::Json::array();
  for (const tuner::DescribedModel& model : models) {
    planner::Json layers = planner::Json::array();
    for (const ProfileLayer& layer : model.layers)
      layers.push_back({{"name", layer.name}, {"kind", layer.kind}, {"parameters", layer.parameters}, {"modules", layer.modules}});
    json["models"].push_back({{"name", model.name},
                              {"options", model.parameters_text},
                              {"description", model.description},
                              {"parameters", model.parameters},
                              {"input", model.input},
                              {"batch", model.batch},
                              {"layers", layers}});
  }
  return json;
}

int run_models(const ModelsOptions& options, const Session& session) {
  session.say(options.model.empty() ? "listing the built-in models" : "loading " + options.model);
  const std::vector<tuner::DescribedModel> models = described(options, wait_options(session));
  for (const tuner::DescribedModel& model : models)
    if (!model.warning.empty()) session.warn(model.warning);
  std::string text = table_of_models(models, session.style);
  if (!options.model.empty() && !models.empty()) text += "\n" + table_of_layers(models.front(), session.style);
  session.result(text, models_json(models));
  return 0;
}

}  // namespace

void add_models_command(CLI::App& program, CommandBody& chosen) {
  auto options = std::make_shared<ModelsOptions>();
  CLI::App* command = program.add_subcommand("models", "Lists the built-in models, or the layers of one model");
  CLI::Option* model = command->add_option(
      "MODEL", options->model, "list the layers of this model, built in or a file (.pt2, .so, .pt): names and numbers for --cuts");
  offer_values(*model, model_values());
  command->add_option("--input", options->input, "shape of one sample, such as 3x64x64; default: the model's")
      ->type_name("SHAPE[:DTYPE]")
      ->group(kModelGroup);
  command->footer(
      "Example:\n  mptune models transformer:d=256,layers=8\n\nA model of your own is a PyTorch program, written by mptune_export.py (see "
      "examples/own_python_model):\n  mptune models net.pt2\na plug-in in C++ (MPTUNE_MODEL of mptune/nn.h, see "
      "examples/own_cpp_model):\n  mptune models ./libnet.so\nor a TorchScript file of an nn.Sequential, "
      "torch.jit.script(net).save(\"net.pt\"), or of a model that holds one:\n  mptune models net.pt:container=backbone.blocks");
  command->callback([options, &chosen] { chosen = [options](const Session& session) { return run_models(*options, session); }; });
}

}  // namespace mptune::reports
