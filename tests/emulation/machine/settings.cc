#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/status.h"

namespace emulation {

namespace {

const char* environment(const char* name) {
  const char* value = std::getenv((std::string("EMULATED_") + name).c_str());
  return value == nullptr || *value == '\0' ? nullptr : value;
}

double number(const char* name, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end == '\0') return value;
  std::fprintf(stderr, "EMULATED_%s=%s is not a number\n", name, text);
  std::_Exit(2);
}

/// Never destroyed: threads of streams use it until the process ends.
template <typename T>
T& immortal() {
  static T& object = *new T;
  return object;
}

struct Settings {
  std::mutex mutex;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
};

struct Texts {
  std::mutex mutex;
  std::set<std::string, std::less<>> all;
};

struct Missing {
  std::mutex mutex;
  std::set<std::string, std::less<>> said;
};

}  // namespace

double setting(const char* name, double fallback) {
  Settings& settings = immortal<Settings>();
  const std::lock_guard lock(settings.mutex);
  const auto known = settings.numbers.find(name);
  if (known != settings.numbers.end()) return known->second;
  const char* text = environment(name);
  const double value = text == nullptr ? fallback : number(name, text);
  settings.numbers.emplace(name, value);
  return value;
}

std::string setting_text(const char* name, const char* fallback) {
  Settings& settings = immortal<Settings>();
  const std::lock_guard lock(settings.mutex);
  const auto known = settings.texts.find(name);
  if (known != settings.texts.end()) return known->second;
  const char* text = environment(name);
  return settings.texts.emplace(name, text == nullptr ? fallback : text).first->second;
}

const char* intern(std::string_view text) {
  Texts& texts = immortal<Texts>();
  const std::lock_guard lock(texts.mutex);
  const auto known = texts.all.find(text);
  return (known != texts.all.end() ? known : texts.all.emplace(text).first)->c_str();
}

Status not_emulated(const char* function) {
  Missing& missing = immortal<Missing>();
  const std::lock_guard lock(missing.mutex);
  if (missing.said.emplace(function).second) std::fprintf(stderr, "%s is not emulated\n", function);
  if (setting("STRICT", 0) != 0) std::abort();
  return kNotSupported;
}

}  // namespace emulation
