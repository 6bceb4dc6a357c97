/* Numbers of the PostgreSQL protocol: big-endian, and not aligned. */
#ifndef NYALA_POSTGRES_NUMBERS_H
#define NYALA_POSTGRES_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline void
put_16(uint8_t *place, unsigned value)
{
    place[0] = (uint8_t)(value >> 8);
    place[1] = (uint8_t)value;
}

static inline void
put_32(uint8_t *place, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(place, &value, 4);
}

static inline int32_t
get_16(const uint8_t *place)
{
    return (int16_t)(place[0] << 8 | place[1]);
}

static inline int32_t
get_32(const uint8_t *place)
{
    uint32_t value;
    memcpy(&value, place, 4);
    return (int32_t)__builtin_bswap32(value);
}

static inline int64_t
get_64(const uint8_t *place)
{
    uint64_t value;
    memcpy(&value, place, 8);
    return (int64_t)__builtin_bswap64(value);
}

static inline double
get_double(const uint8_t *place)
{
    int64_t bits = get_64(place);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline float
get_float(const uint8_t *place)
{
    int32_t bits = get_32(place);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
