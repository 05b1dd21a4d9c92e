# cmake -D OUTPUT=embedded.cpp -D FOLDER=datasets/digits -P embed.cmake
# Writes the definitions of embedded.h from the IDX files in FOLDER.
set(text "#include \"data/embedded.h\"\n\nnamespace trainer::data::embedded {\nnamespace {\n")
set(functions "")
foreach(split train test)
  foreach(part images-idx3 labels-idx1)
    string(REGEX REPLACE "-idx." "" noun ${part})
    file(READ ${FOLDER}/${split}-${part}-ubyte bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND text "constexpr std::uint8_t k_${split}_${noun}[] = {${bytes}};\n")
    string(APPEND functions
           "Bytes digits_${split}_${noun}() { return k_${split}_${noun}; }\n")
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "${text}}  // namespace\n\n${functions}\n}  // namespace trainer::data::embedded\n")
