#include "tests/emulation/machine/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace emulation {

namespace {

/// -1: no ledger.
int ledger_file() {
  static const int file = [] {
    const std::string path = setting_text("LEDGER", "");
    if (path.empty()) return -1;
    const int opened = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (opened >= 0) return opened;
    std::fprintf(stderr, "EMULATED_LEDGER=%s cannot be written\n", path.c_str());
    std::_Exit(2);
  }();
  return file;
}

const char* text_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kernel:
      return "kernel";
    case WorkKind::copy:
      return "copy";
    case WorkKind::peer_copy:
      return "peer copy";
    case WorkKind::fill:
      return "fill";
    case WorkKind::communication:
      return "communication";
    case WorkKind::host:
      return "host";
  }
  return "";
}

/// In CSV a quotation mark is written twice.
std::string quoted(const char* name) {
  std::string text = "\"";
  for (; *name != '\0'; ++name) text += *name == '"' ? "\"\"" : std::string(1, *name);
  return text + "\"";
}

}  // namespace

bool has_ledger() {
  return ledger_file() >= 0;
}

void write_to_ledger(const WorkRecord& work) {
  char numbers[256];
  std::snprintf(numbers, sizeof numbers, ",%d,%u,%u,%" PRId64 ",%" PRId64 ",%" PRIu64 ",%d,%d,%u\n", work.stream.gpu, work.stream.id,
                work.stream.context, work.begin, work.end, work.bytes, work.source_gpu, work.destination_gpu, work.correlation);
  const std::string line = std::to_string(getpid()) + "," + text_of(work.kind) + "," + quoted(work.name) + numbers;
  if (write(ledger_file(), line.data(), line.size()) < 0) std::perror("EMULATED_LEDGER");
}

}  // namespace emulation
