#include "engine/failures.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>

#include "core/error.h"

namespace trainer::engine {

int with_own_failures(const std::function<int()>& body) try {
  return body();
} catch (const c10::OutOfMemoryError& failure) {
  throw Error(Exit::out_of_memory, std::string("out of memory before the first step: ") +
                                       failure.what_without_backtrace());
} catch (const std::bad_alloc&) {
  throw Error(Exit::out_of_memory,
              "out of host memory; a smaller data.loader.prefetch or batch.micro needs less");
} catch (const c10::Error& failure) {
  const std::string message = failure.what_without_backtrace();
  if (message.find("can't allocate memory") != std::string::npos) {
    throw Error(Exit::out_of_memory,
                "out of host memory; a smaller batch.micro needs less. " + message);
  }
  if (message.find("CUDA") != std::string::npos || message.find("cuDNN") != std::string::npos)
    throw Error(Exit::device, message);
  throw;
}

}  // namespace trainer::engine
