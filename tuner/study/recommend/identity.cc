#include "tuner/study/recommend/identity.h"

#include <nlohmann/json.hpp>

namespace mptune::tuner {

std::string study_identity(const TrainingSetup& setup, const std::string& link, const Fingerprint& fingerprint) {
  using Json = nlohmann::json;
  Json json = {{"model", setup.model},
               {"input", fingerprint.input},
               {"batch", setup.batch},
               {"devices", setup.devices},
               {"link", link},
               {"memory", Json(setup.memory_bytes)},
               {"optimizer", text_of(setup.optimizer)},
               {"lr", setup.learning_rate},
               {"loss", setup.loss},
               {"seed", setup.seed},
               {"data", setup.data},
               {"fingerprint", fingerprint.model},
               {"libtorch", fingerprint.libtorch}};
  if (setup.precision != Precision::float32) json["precision"] = name_of(setup.precision);
  if (setup.reduce != Reduce::ordered) json["reduce"] = kReduceNames[static_cast<std::size_t>(setup.reduce)];
  if (!setup.pools.empty()) json["pools"] = setup.pools;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mptune::tuner
