#include "engine/signals.h"

#include <unistd.h>

#include <csignal>

namespace trainer::engine {
namespace {

std::atomic<int> stop{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

void on_signal(int signal) {
  const int as = signal == SIGUSR1 ? SIGTERM : signal;
  if (stop.exchange(as) != 0) _exit(128 + as);
}

}  // namespace

std::atomic<int>& stop_signal() { return stop; }

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  // Writing past a limit or to a closed pipe is reported by the call that does it.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace trainer::engine
